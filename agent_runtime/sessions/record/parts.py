"""Turn chunks into parts, as the AI SDK's own reducer does, for one assistant message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_common.protocol import chunks as c

from ..store.history import Message
from ..store.ids import Kind

NOTICE = "data-notice"
"""Type of a part with a message of the runtime to the model in the middle of a turn."""
INVALID_RESULT = "invalid_result"
"""The `reason` of a notice after a final answer that was not accepted."""
STEER = "data-steer"
"""Type of a part with a user message that joined the turn while it ran."""
RETRY = "data-retry"
"""Type of a part that marks an interrupted model call, whose output so far is not part of the conversation."""
STEP_COUNT = "step_count"
"""Metadata key for the number of complete model calls of a reply. assistant-ui expects an array under `steps`."""
OLD_STEP_COUNT = "steps"
"""The same key in replies of older versions; it is not shown to clients."""


@dataclass(slots=True)
class Part:
    """One part of a message in the SDK's JSON shape, and its state for the recorder."""

    id: str
    index: int
    data: dict[str, Any]
    pending: list[str] = field(default_factory=list[str])
    """Pieces of a growing text that are not yet in `data`."""

    @property
    def text(self) -> str:
        """The text so far."""
        return self.data["text"] + "".join(self.pending)

    def flush_pending(self) -> str:
        """Move the pending pieces into the text and return them joined."""
        added = "".join(self.pending)
        if added:
            self.data["text"] += added
            self.pending.clear()
        return added


class MessageParts:
    """The parts of one assistant message while it is written."""

    def __init__(self, new_id: Callable[[Kind], str]) -> None:
        self.parts: list[Part] = []
        self.metadata: dict[str, Any] = {}
        self._new_id = new_id
        self._open: dict[str, Part] = {}
        """Open parts: texts by chunk id, calls and data parts by type and id, which models and tools choose."""

    @classmethod
    def from_reply(cls, new_id: Callable[[Kind], str], ids: list[str], reply: Message) -> MessageParts:
        """Return the recorded parts of a message that is to be continued."""
        known = cls(new_id)
        known.metadata = dict(reply.metadata)
        for index, (part_id, data) in enumerate(zip(ids, reply.parts, strict=True)):
            part = Part(part_id, index, dict(data))
            known.parts.append(part)
            if tool_name(data) is not None:
                known._open[f"tool:{data['toolCallId']}"] = part
            elif data["type"].startswith("data-") and "id" in data:
                known._open[f"{data['type']}:{data['id']}"] = part
        return known

    def apply(self, chunk: c.Chunk) -> Part | None:
        """Apply one chunk and return the part that it changed; None for chunks that change no part."""
        match chunk:
            case c.TextDelta() | c.ReasoningDelta():
                part = self._open[chunk.id]
                part.pending.append(chunk.delta)
            case c.TextStart() | c.ReasoningStart():
                kind = chunk.type.removesuffix("-start")
                part = self._add({"type": kind, "text": "", "state": "streaming"}, chunk.id)
            case c.TextEnd() | c.ReasoningEnd():
                part = self._open.pop(chunk.id)
                part.flush_pending()
                part.data["state"] = "done"
                if chunk.providerMetadata:
                    part.data["providerMetadata"] = chunk.providerMetadata
            case c.StartStep():
                part = self._add({"type": "step-start"})
            case c.DataChunk() if not chunk.transient:
                part = self._data(chunk)
            case c.Start() | c.MessageMetadata() | c.Finish():
                self.metadata.update(chunk.messageMetadata or {})
                return None
            case _:
                return self._tool(chunk)
        return part

    def _tool(self, chunk: c.Chunk) -> Part | None:
        match chunk:
            case c.ToolInputStart():
                part = self._call(chunk, "input-streaming")
            case c.ToolInputAvailable():
                part = self._call(chunk, "input-available", input=chunk.input)
            case c.ToolInputError():
                part = self._call(chunk, "output-error", input=chunk.input, errorText=chunk.errorText)
            case c.ToolApprovalRequest():
                part = self._open[f"tool:{chunk.toolCallId}"]
                part.data |= {"state": "approval-requested", "approval": {"id": chunk.approvalId}}
            case c.ToolOutputAvailable():
                part = self._open[f"tool:{chunk.toolCallId}"]
                part.data |= {"state": "output-available", "output": chunk.output}
            case c.ToolOutputError():
                part = self._open[f"tool:{chunk.toolCallId}"]
                part.data |= {"state": "output-error", "errorText": chunk.errorText}
                if chunk.toolMetadata:
                    part.data["toolMetadata"] = chunk.toolMetadata
            case _:
                return None
        return part

    def _call(self, chunk: c.ToolInputStart | c.ToolInputAvailable | c.ToolInputError, state: str, **more: Any) -> Part:
        key = f"tool:{chunk.toolCallId}"
        part = self._open.get(key)
        if part is None:
            fixed = {"type": f"tool-{chunk.toolName}"}
            kind = {"type": "dynamic-tool", "toolName": chunk.toolName} if chunk.dynamic else fixed
            part = self._add({**kind, "toolCallId": chunk.toolCallId}, key)
        if chunk.providerExecuted:
            part.data["providerExecuted"] = True
        if chunk.providerMetadata:
            part.data["callProviderMetadata"] = chunk.providerMetadata
        part.data |= {"state": state, **more}
        return part

    def _data(self, chunk: c.DataChunk) -> Part:
        if chunk.id is None:
            return self._add({"type": chunk.type, "data": chunk.data})
        key = f"{chunk.type}:{chunk.id}"
        known = self._open.get(key)
        if known is None:
            return self._add({"type": chunk.type, "id": chunk.id, "data": chunk.data}, key)
        known.data["data"] = chunk.data
        return known

    def _add(self, data: dict[str, Any], key: str | None = None) -> Part:
        part = Part(self._new_id("prt"), len(self.parts), data)
        self.parts.append(part)
        if key is not None:
            self._open[key] = part
        return part


def tool_name(part: dict[str, Any]) -> str | None:
    """Return the tool of a tool part; None for any other part."""
    kind: str = part["type"]
    return part["toolName"] if kind == "dynamic-tool" else kind[5:] if kind.startswith("tool-") else None


def text_of(parts: list[dict[str, Any]]) -> str:
    """Return the answer: the text of the last step that has any, without the output of interrupted model calls."""
    answer = ""
    current = ""
    for part in parts:
        if part["type"] == "step-start":
            answer = current or answer
            current = ""
        elif part["type"] == RETRY:
            current = ""
        elif part["type"] == "text":
            current += part["text"]
    return current or answer


def past_steps(parts: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return the parts of an unfinished reply without those of its latest step."""
    begun = [at for at, part in enumerate(parts) if part["type"] == "step-start"]
    return parts[: begun[-1]] if begun else parts


def shown_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a message's metadata for clients."""
    return {name: value for name, value in metadata.items() if name != OLD_STEP_COUNT}


def shown_parts(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a message's parts in the form that the SDK accepts: a call that failed before its approval was answered
    has no `approval`."""
    return [
        {name: value for name, value in part.items() if name != "approval"} if _unanswered(part) else part
        for part in parts
    ]


def _unanswered(part: dict[str, Any]) -> bool:
    return part.get("state") == "output-error" and part.get("approval", {}).get("approved") is not True
