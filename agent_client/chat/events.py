"""What happens in a chat turn, as typed events: `ChatEvent` is their union, distinguished by `type`.

They are made from the AI SDK's chunks (docs/protocols/chat.md), which a frontend in another language reads as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agent_common.protocol import Usage

TextKind = Literal["text", "reasoning"]


@dataclass(frozen=True, slots=True)
class Started:
    """The turn has been accepted, under the names that the caller uses."""

    session_id: str
    message_id: str
    task_id: str | None = None
    type: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class Queued:
    """The message waits for other turns."""

    position: int
    """Turns that run or wait before it."""
    type: Literal["queued"] = "queued"


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The model is asked."""

    number: int
    """From 1."""
    type: Literal["step-started"] = "step-started"


@dataclass(frozen=True, slots=True)
class StepFinished:
    """The model has answered and its tool calls have ended."""

    number: int
    usage: Usage | None
    """Tokens of the turn so far; None if the server did not say."""
    type: Literal["step-finished"] = "step-finished"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer's text, or of the model's reasoning."""

    text: str
    part: int
    """Which text of the turn it belongs to, from 0 for each kind."""
    kind: TextKind = "text"
    type: Literal["text-delta"] = "text-delta"


@dataclass(frozen=True, slots=True)
class TextReplaced:
    """A text is not what was sent before, because the server was restarted in the middle: this is all of it now."""

    text: str
    part: int
    kind: TextKind = "text"
    type: Literal["text-replaced"] = "text-replaced"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The agent calls a tool."""

    id: str
    name: str
    input: Any
    type: Literal["tool-call"] = "tool-call"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool call has ended: with `output`, or with `error`."""

    id: str
    name: str
    output: Any = None
    error: str | None = None
    type: Literal["tool-result"] = "tool-result"


@dataclass(frozen=True, slots=True)
class Approval:
    """A person must allow a call: `agent.answer(approval, "once")`, `"always"` (with a `scope`) or `"reject"`.

    After a restart, a runtime of an earlier version sends the reason, the rules and the code behind the request: then
    the approval comes twice, the second time with them.
    """

    session_id: str
    id: str
    tool_call_id: str
    tool: str
    input: Any
    reason: str | None = None
    """Which rule asks."""
    always: Sequence[Any] = ()
    """The rules that the answer `always` adds."""
    code: str | None = None
    """What an answer in plain text repeats, as in `yes K7`."""
    agent: str | None = None
    """The agent that asks, for which `always` may hold."""
    type: Literal["approval"] = "approval"


@dataclass(frozen=True, slots=True)
class Question:
    """The agent asks a person: `agent.answer(question, "blue")`."""

    session_id: str
    id: str
    questions: Sequence[Any]
    """Each `{question, header?, options?, multi_select?}`."""
    type: Literal["question"] = "question"


@dataclass(frozen=True, slots=True)
class Steered:
    """A user's message has joined the running turn."""

    data: Any
    type: Literal["steered"] = "steered"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something else about the turn: a retry, a compaction, a note to the model."""

    name: str
    """The chunk's type without `data-`."""
    data: Any
    type: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn failed; `Finished` follows."""

    message: str
    type: Literal["failed"] = "failed"


@dataclass(frozen=True, slots=True)
class Reply:
    """All of a turn."""

    session_id: str
    message_id: str
    text: str
    """The answer: the text of the last step that has any."""
    tool_results: Sequence[ToolResult] = ()
    finish_reason: str = "other"
    """`stop`, `length`, `content-filter`, `error`, `other`, or `abort`."""
    usage: Usage = field(default_factory=Usage)
    limit: str | None = None
    """The limit that ended the turn, if one did."""
    error: str | None = None
    error_code: str | None = None
    """Why there is no answer, as a stable word."""
    retry_after: float | None = None
    """Seconds that the model's provider asks to wait; None if it gave none."""

    @property
    def failed(self) -> bool:
        """Whether `text` is at most a part of the answer: the turn failed, was aborted, or was ended by its deadline, a
        budget or the host."""
        return self.finish_reason in ("abort", "error") or self.error_code is not None


@dataclass(frozen=True, slots=True)
class Finished:
    """The turn has ended, and its end is on disk. The last event."""

    reply: Reply
    type: Literal["finished"] = "finished"


ChatEvent = (
    Started
    | Queued
    | StepStarted
    | StepFinished
    | TextDelta
    | TextReplaced
    | ToolCall
    | ToolResult
    | Approval
    | Question
    | Steered
    | Notice
    | Failed
    | Finished
)
