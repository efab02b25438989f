"""Write well-formed chunks: every delta after its start, every text closed, every tool call answered.

Each method returns the chunks to send, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from agent_common.protocol import chunks as c

from ...ports import ToolSpec
from ...sessions import APPROVAL_PART, APPROVAL_PREFIX, tool_name
from ..core.pending_requests import QUESTION_TOOL

MAX_ID_CHARACTERS = 64
"""Maximum characters of a call id."""


class _Kind(TypedDict):
    dynamic: bool | None
    providerExecuted: bool | None


class ChunkWriter:
    """Tracks the open texts, calls and steps of one turn's stream."""

    def __init__(self, spec: Callable[[str], ToolSpec | None], recorded: Sequence[dict[str, Any]] = ()) -> None:
        """`spec` looks up a tool; `recorded` holds the parts of a reply that is resumed, whose last step is still
        open."""
        self._spec = spec
        self._count = len(recorded)
        self._text: str | None = None
        self._reasoning: str | None = None
        self._step = bool(recorded)
        self._calls: dict[str, tuple[str, bool]] = {}
        """Calls without an answer: id -> tool name and whether its input is complete."""
        self._ids: set[str] = set()
        for part in recorded:
            if (name := tool_name(part)) is not None:
                self._ids.add(part["toolCallId"])
                if not part["state"].startswith("output-"):
                    self._calls[part["toolCallId"]] = (name, True)

    def begin_step(self) -> list[c.Chunk]:
        """Open a step, unless an earlier process has opened it already."""
        if self._step:
            return []
        self._step = True
        return [c.StartStep()]

    def end_step(self) -> list[c.Chunk]:
        chunks = self.close_text()
        if self._step:
            self._step = False
            chunks.append(c.FinishStep())
        return chunks

    def text(self, piece: str) -> list[c.Chunk]:
        if self._text is not None:
            return [c.TextDelta(id=self._text, delta=piece)]
        closing = self.close_text()
        self._text = self._new_id("text")
        return [*closing, c.TextStart(id=self._text), c.TextDelta(id=self._text, delta=piece)]

    def reasoning(self, piece: str) -> list[c.Chunk]:
        if self._reasoning is not None:
            return [c.ReasoningDelta(id=self._reasoning, delta=piece)]
        closing = self.close_text()
        self._reasoning = self._new_id("reasoning")
        return [*closing, c.ReasoningStart(id=self._reasoning), c.ReasoningDelta(id=self._reasoning, delta=piece)]

    def close_text(self, metadata: dict[str, Any] | None = None) -> list[c.Chunk]:
        """Close the open text or reasoning, with the metadata that its part keeps."""
        chunks: list[c.Chunk] = []
        if self._text is not None:
            chunks.append(c.TextEnd(id=self._text, providerMetadata=metadata))
        if self._reasoning is not None:
            chunks.append(c.ReasoningEnd(id=self._reasoning, providerMetadata=metadata))
        self._text = self._reasoning = None
        return chunks

    def call_id(self, provider_id: str) -> str:
        """Return a call id that is unique in this turn: the provider's id if it is new and cannot be confused with an
        approval's, so that a person's approval always means exactly one call."""
        if provider_id.startswith(APPROVAL_PREFIX) or not 0 < len(provider_id) <= MAX_ID_CHARACTERS:
            provider_id = f"call_{len(self._ids) + 1}"
        call_id = provider_id
        number = 1
        while call_id in self._ids:
            number += 1
            call_id = f"{provider_id}_{number}"
        self._ids.add(call_id)
        return call_id

    def call_started(self, call_id: str, name: str) -> list[c.Chunk]:
        self._calls[call_id] = (name, False)
        return [*self.close_text(), c.ToolInputStart(toolCallId=call_id, toolName=name, **self._kind(name))]

    def call_ready(
        self, call_id: str, name: str, arguments: object, metadata: dict[str, Any] | None = None
    ) -> list[c.Chunk]:
        self._calls[call_id] = (name, True)
        kind = self._kind(name)
        return [
            c.ToolInputAvailable(toolCallId=call_id, toolName=name, input=arguments, providerMetadata=metadata, **kind)
        ]

    def call_refused(
        self, call_id: str, name: str, arguments: object, why: str, metadata: dict[str, Any] | None = None
    ) -> list[c.Chunk]:
        """Report a call that did not run, because its input is invalid or it is not allowed."""
        self._calls.pop(call_id, None)
        kind = self._kind(name)
        return [
            c.ToolInputError(
                toolCallId=call_id, toolName=name, input=arguments, errorText=why, providerMetadata=metadata, **kind
            )
        ]

    def call_done(self, call_id: str, output: object) -> list[c.Chunk]:
        name, _ = self._calls.pop(call_id)
        return [c.ToolOutputAvailable(toolCallId=call_id, output=output, dynamic=self._dynamic(name))]

    def call_failed(self, call_id: str, why: str, metadata: dict[str, object] | None = None) -> list[c.Chunk]:
        name, _ = self._calls.pop(call_id)
        meta = {"metadata": metadata or {}}
        return [c.ToolOutputError(toolCallId=call_id, errorText=why, toolMetadata=meta, dynamic=self._dynamic(name))]

    def approval_wanted(self, call_id: str, approval: str, shown: Mapping[str, object]) -> list[c.Chunk]:
        """Ask for an approval of this id. What is shown with it is sent before it, because the SDK's own request has no
        fields for that."""
        about = c.DataChunk(type=APPROVAL_PART, id=approval, data=shown)
        return [about, c.ToolApprovalRequest(approvalId=approval, toolCallId=call_id)]

    def close_calls(self, why: str) -> list[c.Chunk]:
        """Close open texts and answer every open call with `why`."""
        chunks = self.close_text()
        for call_id, (name, complete) in list(self._calls.items()):
            chunks += self.call_failed(call_id, why) if complete else self.call_refused(call_id, name, {}, why)
        return chunks

    def close(self, why: str) -> list[c.Chunk]:
        """Close everything that is open, with `why` as the result of open calls."""
        return [*self.close_calls(why), *self.end_step()]

    def _dynamic(self, name: str) -> bool | None:
        spec = self._spec(name)
        return True if spec is not None and spec.source != "builtin" else None

    def _kind(self, name: str) -> _Kind:
        """Mark calls for frontends: those that run here, which are all but questions, and those that they may
        answer."""
        return {"dynamic": self._dynamic(name), "providerExecuted": None if name == QUESTION_TOOL else True}

    def _new_id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"
