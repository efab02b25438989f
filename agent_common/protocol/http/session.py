"""The session resource: a conversation's name, usage, status, messages, and the changes to it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..base import Inbound, Peer
from .chat import UIMessage

SessionState = Literal["idle", "busy", "retrying", "waiting_on_approval", "waiting_on_user_input", "error"]
SessionFilter = Literal[SessionState, "waiting"]
"""A state, or both of those that wait for a person."""
TITLE_CHARACTERS = 200
METADATA_BYTES = 16 * 1024


def _absent(value: object) -> bool:
    return value is None


# ---------------------------------------------------------------- answers


class SessionStatus(Peer):
    """The status of a session. Fields that do not apply are left out."""

    state: SessionState
    attempt: int | None = Field(default=None, exclude_if=_absent)
    """The number of the current attempt at the model call, while retrying."""
    message: str | None = Field(default=None, exclude_if=_absent)
    """Why the call is retried, or the error."""
    started_at: int | None = Field(default=None, exclude_if=_absent)
    """Epoch milliseconds when the running turn began; absent while it waits for a slot."""
    message_id: str | None = Field(default=None, exclude_if=_absent)
    """The sender's id of the user message that is being answered."""
    pending: Any = Field(default=None, exclude_if=_absent)
    """The question or approval for a person, while the session waits for one."""
    human_input_state_authoritative: Literal[True] = True
    queue_enqueue_idempotent: Literal[True] = True


class TokenCounts(Peer):
    """Tokens of all model calls of a session, in five disjoint buckets. Hidden messages count."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0


class SessionSummary(Peer):
    """A session in a list. Times are epoch milliseconds UTC."""

    id: str
    session_id: str
    """The name in the request: an id, or the caller's own alias."""
    alias: str | None
    """The name that a caller gave to it, such as `main`; null if it has none."""
    title: str | None
    agent: str
    model: str
    parent_id: str | None
    """The session that this one was forked from."""
    parent_message_id: str | None
    """The last message that both have in common."""
    ephemeral: bool
    """Whether it is a side conversation, which lists leave out."""
    metadata: dict[str, Any]
    """The caller's own keys."""
    created_at: int
    updated_at: int
    archived_at: int | None
    usage: TokenCounts
    total_tokens: int
    status: SessionStatus


class QueuedMessage(Peer):
    """A user message that waits for its turn."""

    message_id: str
    """The sender's id of the message."""
    position: int
    """Number of messages of this session that run before it."""
    queued_at: int
    parts: list[dict[str, Any]]


class SessionDetail(SessionSummary):
    """A session with all its fields."""

    cost_usd: float | None
    """US dollars for all its tokens; null if a model that was used has no known price."""
    unpriced_models: list[str]
    """The models without a known price."""
    context_tokens: int | None
    """Tokens in the window at the last model call; null if there was none since the server started."""
    queue: list[QueuedMessage]


class ImportedSession(SessionDetail):
    """A session that was imported."""

    permissions_left_out: list[str]
    """The rules of the export that do not hold here, each as `permission pattern action`; empty with
    `permissions=keep`."""


class SessionList(Peer):
    """A page of sessions, the most recently changed first."""

    sessions: list[SessionSummary]
    next: str | None = Field(default=None, exclude_if=_absent)
    """Pass it as `after` to get the next page; absent on the last one."""


class SessionMessage(Peer):
    """A message in the AI SDK's own shape."""

    id: str
    role: str
    metadata: dict[str, Any]
    parts: list[dict[str, Any]]
    created_at: int


class MessageList(Peer):
    """A page of messages, oldest first."""

    messages: list[SessionMessage]
    next: str | None = Field(default=None, exclude_if=_absent)
    """Pass it as `after` to get the next page; absent on the last one, and on a page that was asked for by `before`."""
    previous: str | None = Field(default=None, exclude_if=_absent)
    """Pass it as `before` to get the page before; absent on the first one, and on a page not asked for by `before`."""


class PromptReply(Peer):
    """The model's view of a session: everything that the next call would send except the new message."""

    session_id: str
    digest: str
    """SHA-256 of the system prompt, which never changes within a session."""
    prompt: str
    model: str
    tools: list[dict[str, Any]]
    """Tools in OpenAI's function format, in the order in which the model sees them."""
    messages: list[dict[str, Any]]
    """Chat-completions messages after the system message."""
    context_tokens: int | None


class RewindReply(Peer):
    """The result of a rewind."""

    session_id: str
    hidden: int
    """Number of messages that are now hidden."""
    message: UIMessage
    """The user message that was rewound to, for editing."""


class UnrewindReply(Peer):
    """The result of undoing a rewind."""

    session_id: str
    restored: int


# ---------------------------------------------------------------- requests


class SessionPatch(Inbound):
    """Changes to a session. Fields that are left out stay as they are."""

    title: str | None = Field(default=None, min_length=1, max_length=TITLE_CHARACTERS)
    """The title; null removes it."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """The caller's own keys, merged into the existing ones; null deletes a key."""
    model: str = Field(default="", min_length=1, max_length=200)
    """The model from the next turn on."""
    archived: bool = False
    """True archives the session, false restores it, without an alias that it had."""
    agent: None = None
    """Not accepted: a session's agent never changes."""

    @field_validator("agent", mode="before")
    @classmethod
    def _fixed(cls, _: Any) -> None:
        raise ValueError("the agent of a session cannot be changed; start another session")


class ForkRequest(Inbound):
    """How to fork a session."""

    message_id: str | None = Field(default=None, min_length=1, max_length=200)
    """The last message to copy; null means all messages."""
    title: str | None = Field(default=None, min_length=1, max_length=TITLE_CHARACTERS)
    """Title of the new session; unset it is the old title and ` (copy)`."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """The caller's own keys, merged into those of the old session; null deletes a key."""
    ephemeral: bool = False
    """Make a side conversation, which lists leave out."""


class RewindRequest(Inbound):
    """How far to rewind a session."""

    message_id: str = Field(min_length=1, max_length=200)
    """A user message. It and all later messages are hidden."""


class _Query(BaseModel):
    """Query parameters: unknown ones are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class SessionsQuery(_Query):
    """Which sessions to list."""

    limit: int = Field(default=50, ge=1, le=500)
    after: str | None = Field(default=None, min_length=1, max_length=200)
    archived: bool = False
    ephemeral: bool = False
    state: SessionFilter | None = None
    """Only sessions in this state."""


class MessagesQuery(_Query):
    """Which messages to list."""

    limit: int = Field(default=200, ge=1, le=1000)
    after: str | None = Field(default=None, min_length=1, max_length=200)
    """The messages after this one: a `next`, or the id of a message."""
    before: str | None = Field(default=None, min_length=1, max_length=200)
    """The messages before this one, the latest ones of them: a `previous`, the id of a message, or `end`."""
    hidden: bool = False
    running: bool = False
    """Include the reply that is being written, as far as it is on disk."""

    @model_validator(mode="after")
    def _one_direction(self) -> MessagesQuery:
        if self.after is not None and self.before is not None:
            raise ValueError("give after or before, not both")
        return self


class ImportQuery(_Query):
    """How to import."""

    permissions: Literal["keep"] | None = None
    """`keep`: the session's own rules hold here too. Without it they are left out, and the reply lists them."""


class ExportQuery(_Query):
    """How to export."""

    format: Literal["jsonl", "json"] = "jsonl"
