"""From the chunks of a turn to its events, over any number of connections that each begin anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent_common.protocol import Usage, is_object
from agent_common.protocol import chunks as c

from .events import (
    Approval,
    ChatEvent,
    Failed,
    Finished,
    Notice,
    Question,
    Queued,
    Reply,
    Started,
    Steered,
    StepFinished,
    StepStarted,
    ToolCall,
    ToolResult,
)
from .texts import Texts

QUESTION_TOOL = "question"
_RETRY = "data-retry"
"""What the broken model call before it said is not part of the answer."""


class TurnReader:
    """Reads the chunks of one turn. An event that was yielded on an earlier connection is not yielded again.

    The reply is made from the chunks of the latest connection alone, which has them all.
    """

    def __init__(self) -> None:
        self._texts = Texts()
        self._yielded: set[tuple[object, ...]] = set()
        self.reconnected()

    def reconnected(self) -> None:
        """A new connection sends everything again."""
        self._texts.reconnected()
        self._metadata: dict[str, Any] = {}
        self._step = 0
        self._counts: dict[str, int] = {}
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, ToolResult] = {}
        self._about: dict[str, dict[str, Any]] = {}
        """What is said of an approval, by its id."""
        self._requests: dict[str, c.ToolApprovalRequest] = {}
        self._answer = ""
        self._step_texts = list[str]()
        self._error: str | None = None

    def read(self, chunk: c.AnyChunk) -> Iterator[ChatEvent]:
        """Yield what is new in the chunk."""
        match chunk:
            case c.TextStart() | c.ReasoningStart():
                self._texts.start("text" if isinstance(chunk, c.TextStart) else "reasoning", chunk.id)
            case c.TextDelta() | c.ReasoningDelta():
                if isinstance(chunk, c.TextDelta):
                    self._step_texts.append(chunk.delta)
                yield from self._texts.add(chunk.id, chunk.delta)
            case c.TextEnd() | c.ReasoningEnd():
                yield from self._texts.end(chunk.id)
            case c.Start():
                self._metadata.update(chunk.messageMetadata or {})
                yield from self._once(Started(self._name("session_id"), self._name("message_id"), self._task), "start")
            case c.StartStep() | c.FinishStep() | c.MessageMetadata():
                yield from self._read_step(chunk)
            case c.DataChunk():
                yield from self._read_data(chunk)
            case c.ErrorChunk() | c.Finish() | c.Abort():
                yield from self._read_end(chunk)
            case _:
                yield from self._read_tool(chunk)

    def _read_step(self, chunk: c.StartStep | c.FinishStep | c.MessageMetadata) -> Iterator[ChatEvent]:
        match chunk:
            case c.MessageMetadata():
                self._metadata.update(chunk.messageMetadata)
            case c.StartStep():
                self._step += 1
                self._answer = self._text
                self._step_texts = []
                yield from self._once(StepStarted(self._step), "step", self._step)
            case c.FinishStep():
                usage = self._usage if "usage" in self._metadata else None
                yield from self._once(StepFinished(self._step, usage), "step-end", self._step)

    def _read_tool(self, chunk: c.AnyChunk) -> Iterator[ChatEvent]:
        match chunk:
            case c.ToolInputAvailable() | c.ToolInputError():
                call = ToolCall(chunk.toolCallId, chunk.toolName, chunk.input)
                self._calls[call.id] = call
                yield from self._once(call, "call", call.id)
                if isinstance(chunk, c.ToolInputError):
                    yield from self._result(call.id, error=chunk.errorText)
                elif call.name == QUESTION_TOOL and not self._task:
                    asked = call.input.get("questions", ()) if is_object(call.input) else ()
                    yield from self._once(Question(self._name("session_id"), call.id, asked), "question", call.id)
            case c.ToolApprovalRequest():
                self._requests[chunk.approvalId] = chunk
                yield from self._ask(chunk.approvalId)
            case c.ToolOutputAvailable() if not chunk.preliminary:
                yield from self._result(chunk.toolCallId, output=chunk.output)
            case c.ToolOutputError():
                yield from self._result(chunk.toolCallId, error=chunk.errorText)
            case c.ToolOutputDenied():
                yield from self._result(chunk.toolCallId, error="denied")
            case _:  # files and sources of the model, input as it is written
                return

    def _read_data(self, chunk: c.DataChunk) -> Iterator[ChatEvent]:
        number = self._counts[chunk.type] = self._counts.get(chunk.type, 0) + 1
        match chunk.type:
            case "data-queue":
                position = chunk.data.get("position") if is_object(chunk.data) else None
                if isinstance(position, int):
                    yield from self._once(Queued(position), "queue", position)
            case "data-approval":
                self._about[chunk.id or ""] = chunk.data
                yield from self._ask(chunk.id or "")
            case "data-steer":
                yield from self._once(Steered(chunk.data), "steer", chunk.id or number)
            case name:
                if name == _RETRY:
                    self._step_texts.clear()
                yield from self._once(Notice(name.removeprefix("data-"), chunk.data), name, chunk.id or number)

    def _read_end(self, chunk: c.ErrorChunk | c.Finish | c.Abort) -> Iterator[ChatEvent]:
        if isinstance(chunk, c.ErrorChunk):
            self._error = chunk.errorText
            yield from self._once(Failed(chunk.errorText), "error")
            return
        yield from self._texts.finish()
        if isinstance(chunk, c.Finish):
            self._metadata.update(chunk.messageMetadata or {})
        reason = "abort" if isinstance(chunk, c.Abort) else chunk.finishReason or "other"
        outcome: dict[str, Any] = self._metadata.get("outcome") or {}
        yield Finished(
            Reply(
                self._name("session_id"),
                self._name("message_id"),
                self._text,
                tuple(self._results.values()),
                reason,
                self._usage,
                limit=self._metadata.get("limit") or outcome.get("limit"),
                error=outcome.get("error") or self._error or (chunk.reason if isinstance(chunk, c.Abort) else None),
                error_code=outcome.get("error_code"),
                retry_after=outcome.get("retry_after"),
            )
        )

    def _ask(self, approval: str) -> Iterator[ChatEvent]:
        """Yield a request; again once there is more to say of it, for runtimes that say it after the request."""
        is_whole = approval in self._about
        if (chunk := self._requests.get(approval)) and (is_whole or ("approval", approval, True) not in self._yielded):
            yield from self._once(self._approval(chunk), "approval", approval, is_whole)

    def _approval(self, chunk: c.ToolApprovalRequest) -> Approval:
        call = self._calls.get(chunk.toolCallId)
        about = self._about.get(chunk.approvalId, {})
        return Approval(
            self._name("session_id"),
            chunk.approvalId,
            chunk.toolCallId,
            call.name if call else "",
            call.input if call else None,
            about.get("reason"),
            about.get("always") or (),
            about.get("code"),
            about.get("agent"),
        )

    def _result(self, call_id: str, output: Any = None, error: str | None = None) -> Iterator[ChatEvent]:
        call = self._calls.get(call_id)
        self._results[call_id] = result = ToolResult(call_id, call.name if call else "", output, error)
        yield from self._once(result, "result", call_id)

    def _once(self, event: ChatEvent, *key: object) -> Iterator[ChatEvent]:
        if key not in self._yielded:
            self._yielded.add(key)
            yield event

    def _name(self, key: str) -> str:
        return str(self._metadata.get(key, ""))

    @property
    def _text(self) -> str:
        return "".join(self._step_texts) or self._answer

    @property
    def _task(self) -> str | None:
        return self._metadata.get("task_id")

    @property
    def _usage(self) -> Usage:
        return Usage.model_validate(self._metadata.get("usage") or {})
