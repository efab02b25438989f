"""Chat request and reply (docs/reference/http.md), and the body that the AI SDK's `useChat` sends."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ...line_text import first_visible
from ..base import Inbound, Peer, is_object
from ..permission import ApprovalScope
from ..usage import Usage

OnBusy = Literal["answer", "queue", "reject", "steer", "interrupt"]
DEFAULT_WAIT_SECONDS = 120.0
MAX_WAIT_SECONDS = 600.0
SESSION_NAME = r"^[^/]*$"
"""No slash, because a session's name is part of a path."""
_BLANK = "has nothing that shows"
"""What is wrong with a message of blanks alone. Where data is beside it, that may be what is sent."""
Sender = Annotated[str | None, Field(min_length=1, max_length=200)]
"""The member of a group who writes, where one principal stands for the group."""


class TextPart(Inbound):
    """Text of a user message."""

    type: Literal["text"]
    text: str


class DataPart(Inbound):
    """Data of the frontend's own beside the text. It is kept with the message and not shown to the model."""

    type: str = Field(pattern=r"^data-.", max_length=200)
    id: str | None = Field(default=None, max_length=200, exclude_if=lambda value: value is None)
    data: Any = None


def _kind_of_part(part: Any) -> str:
    kind = part.get("type") if is_object(part) else getattr(part, "type", None)
    return "(data)" if isinstance(kind, str) and kind.startswith("data-") else "(text)"


MessagePart = Annotated[
    Annotated[TextPart, Tag("(text)")] | Annotated[DataPart, Tag("(data)")], Discriminator(_kind_of_part)
]


class TurnMetadata(Peer):
    """Metadata that a frontend adds to a message. Other fields are the frontend's own."""

    agent: str | None = Field(default=None, min_length=1, max_length=200, strict=True)
    """The agent for this turn."""


class ChatRequest(Inbound):
    """A user message: either `message` or `parts`."""

    message: str | None = Field(default=None, min_length=1)
    """The message as plain text."""
    parts: list[MessagePart] | None = Field(default=None, min_length=1)
    """The message as AI SDK parts, at least one of them text."""
    session_id: str | None = Field(default=None, min_length=1, max_length=200, pattern=SESSION_NAME)
    """The conversation; null means the principal's main session."""
    user: str | None = Field(default=None, min_length=1, max_length=200)
    """The principal on whose behalf the token's holder speaks."""
    sender: Sender = None
    """The member of a group who writes. What the turn asks, only a message of the same sender answers."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """The model for this turn; it stays until changed."""
    agent: str | None = Field(default=None, min_length=1, max_length=200)
    """The agent for this turn."""
    metadata: TurnMetadata | None = None
    """The agent may also be named here, as in a frontend's message."""
    on_busy: OnBusy = "answer"
    """What to do while a turn runs in this session. `answer`: if the turn waits for a person, the message is the
    answer to its question, or `yes` or `no` with the code of an approval; otherwise it queues."""
    message_id: str | None = Field(default=None, min_length=1, max_length=200)
    """The caller's id: the same id with the same content is the same message."""
    wait: float = Field(default=DEFAULT_WAIT_SECONDS, ge=0, le=MAX_WAIT_SECONDS, allow_inf_nan=False)
    """Seconds a JSON reply waits for the turn before it answers 202."""

    @field_validator("message")
    @classmethod
    def _message_shows(cls, value: str | None) -> str | None:
        if value is not None and first_visible(value) is None:
            raise ValueError(_BLANK)
        return value

    @field_validator("parts")
    @classmethod
    def _parts_show(cls, value: list[MessagePart] | None) -> list[MessagePart] | None:
        if value and all(isinstance(part, TextPart) and first_visible(part.text) is None for part in value):
            raise ValueError(_BLANK)
        return value

    @model_validator(mode="after")
    def _one_of_message_and_parts(self) -> ChatRequest:
        if (self.message is None) == (self.parts is None):
            raise ValueError("give exactly one of message and parts")
        if self.parts is not None and not any(isinstance(part, TextPart) for part in self.parts):
            raise ValueError("parts has no text")
        if self.agent and self.metadata and self.metadata.agent not in (None, self.agent):
            raise ValueError("agent and metadata.agent name two agents: give one")
        return self

    @property
    def named_agent(self) -> str | None:
        """The agent that the request names, or None."""
        return self.agent or (self.metadata.agent if self.metadata else None)

    @property
    def content(self) -> list[TextPart | DataPart]:
        """The message as parts, whichever field it came in."""
        return self.parts or [TextPart(type="text", text=self.message or "")]


class UIMessage(BaseModel):
    """One message in the shape of an AI SDK frontend. Unknown fields of later versions are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    id: str = Field(default="", max_length=200)
    role: Literal["system", "user", "assistant"]
    metadata: Any = None
    parts: list[dict[str, Any]]


class UseChatRequest(BaseModel):
    """The body that `useChat` posts. Only the last of `messages` counts; extra keys are tolerated."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    id: str | None = Field(default=None, min_length=1, max_length=200, pattern=SESSION_NAME)
    messages: list[UIMessage] = Field(min_length=1)
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    messageId: str | None = Field(default=None, max_length=200)  # noqa: N815  the AI SDK's name
    on_busy: OnBusy = "queue"
    sender: Sender = None
    """As in a ChatRequest and an AnswerRequest."""
    always: dict[str, ApprovalScope] = Field(default_factory=dict[str, ApprovalScope], max_length=100)
    """Of the approvals that the message gives: those that are given for `always`, by id, and for what that holds."""


class StreamQuery(BaseModel):
    """Which turn of a session to stream, and how far."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    follow: bool = False
    """Whether the stream stays open while the turn waits for a person."""
    message_id: str | None = Field(default=None, min_length=1, max_length=200)
    """Of the turn, also if it has ended; unset, of the one that runs."""


class ResetRequest(Inbound):
    """Archive a conversation and start a new one."""

    session_id: str | None = Field(default=None, min_length=1, max_length=200, pattern=SESSION_NAME)
    user: str | None = Field(default=None, min_length=1, max_length=200)


class ResetReply(Peer):
    """The session that was archived, if there was one, and the new one."""

    session_id: str
    archived: str | None = None


class ToolOutput(Peer):
    """One tool call of a turn, in a JSON reply."""

    id: str
    name: str
    input: Any = None
    output: Any = None
    state: str


class ChatReply(Peer):
    """A finished turn as one JSON object."""

    session_id: str
    message_id: str
    response: str
    tool_outputs: list[ToolOutput] = Field(default_factory=list[ToolOutput])
    usage: Usage = Field(default_factory=Usage)
    tokens_used: int = 0
    finish_reason: str
    limit: str | None = None


class ChatPending(Peer):
    """Answer 202: the message is on disk, its turn has not ended within `wait`."""

    session_id: str
    message_id: str
    status: Literal["queued", "running", "waiting"]
    pending: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """The open questions and approvals of the session's turn, which may be an earlier one than this message's."""


class AnswerRequest(Inbound):
    """The answer to a question (`answers`) or an approval (`decision`)."""

    id: str = Field(min_length=1, max_length=300)
    """The id of the question or approval, from `pending` or the stream."""
    sender: Sender = None
    """The member of a group who answers, who must be the one who was asked. Unset, the token's holder decides."""
    answers: list[list[str]] | None = Field(default=None, max_length=100)
    """For a question: one list of texts for each question, in order."""
    decision: Literal["once", "always", "reject"] | None = None
    """For an approval. `always` also adds the rules that `pending` lists under `always`."""
    scope: ApprovalScope = "session"
    """For what `always` holds: this session, or all sessions of its user with the agent that asks."""
    reason: str | None = Field(default=None, max_length=2000)
    """Why the call is rejected, for the model."""

    @model_validator(mode="after")
    def _one_of_answers_and_decision(self) -> AnswerRequest:
        if (self.answers is None) == (self.decision is None):
            raise ValueError("give exactly one of answers and decision")
        return self

    @field_validator("scope")
    @classmethod
    def _goes_with_always(cls, value: ApprovalScope, info: ValidationInfo) -> ApprovalScope:
        if info.data.get("decision") != "always":
            raise ValueError("goes with the decision always; leave it out")
        return value


class AnswerReply(Peer):
    """The answer is on disk."""

    session_id: str
    message_id: str
    status: Literal["running", "waiting"]
    """`waiting` while other requests of the same turn are open."""
    pending: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])


class AbortReply(Peer):
    """Whether a turn was stopped."""

    session_id: str
    message_id: str | None = None
    aborted: bool


class CancelReply(Peer):
    """The message was removed from the queue and will not run."""

    session_id: str
    message_id: str
    cancelled: Literal[True] = True
