"""The session resource: what a conversation is called, what it has used, how it stands, and what may be changed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .base import Inbound, Peer
from .chat import UIMessage

SessionState = Literal["idle", "busy", "retrying", "waiting_on_approval", "waiting_on_user_input", "error"]
TITLE_CHARACTERS = 200
METADATA_BYTES = 16 * 1024


def _absent(value: object) -> bool:
    return value is None


# ---------------------------------------------------------------- answers


class SessionStatus(Peer):
    """How a session stands. What does not apply is left out."""

    state: SessionState
    attempt: int | None = Field(default=None, exclude_if=_absent)
    """Which attempt at the model call is being made, while retrying."""
    message: str | None = Field(default=None, exclude_if=_absent)
    """Why it is retrying, or what went wrong."""
    started_at: int | None = Field(default=None, exclude_if=_absent)
    """Epoch milliseconds when the running turn began; absent while it waits for a slot."""
    message_id: str | None = Field(default=None, exclude_if=_absent)
    """The user message that is being answered, as its sender named it."""
    pending: Any = Field(default=None, exclude_if=_absent)
    """What a human is asked, while the session waits for one."""
    human_input_state_authoritative: Literal[True] = True
    queue_enqueue_idempotent: Literal[True] = True


class TokenCounts(Peer):
    """Tokens of every model call of a session, in five buckets that do not overlap; hidden messages count."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0


class SessionSummary(Peer):
    """A session as the list shows it. Times are epoch milliseconds UTC."""

    id: str
    session_id: str
    """The name that the request used: an id, or the caller's own alias."""
    title: str | None
    agent: str
    model: str
    parent_id: str | None
    """The session that this one was forked from."""
    parent_message_id: str | None
    """The last message that both share."""
    ephemeral: bool
    """A side conversation, which lists leave out."""
    metadata: dict[str, Any]
    """The caller's own keys."""
    created_at: int
    updated_at: int
    archived_at: int | None
    usage: TokenCounts
    total_tokens: int


class QueuedMessage(Peer):
    """A user message that waits for its turn."""

    message_id: str
    """As its sender named it."""
    position: int
    """Messages of this session that come before it."""
    queued_at: int
    parts: list[dict[str, Any]]


class SessionDetail(SessionSummary):
    """A session with all that is known of it."""

    cost_usd: float | None
    """US dollars for all its tokens; null when a model that was used has no known price."""
    unpriced_models: list[str]
    """Those models."""
    context_tokens: int | None
    """Tokens in the window at the last model call; null when there was none since the server started."""
    status: SessionStatus
    queue: list[QueuedMessage]


class SessionList(Peer):
    """A page of sessions, the one that changed last first."""

    sessions: list[SessionSummary]
    next: str | None = Field(default=None, exclude_if=_absent)
    """Give it as `after` for the next page; absent on the last one."""


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
    """Give it as `after` for the next page; absent on the last one."""


class PromptReply(Peer):
    """What the model sees: everything that the next call would send but the new message."""

    session_id: str
    digest: str
    """SHA-256 of the system prompt, which a session keeps for life."""
    prompt: str
    model: str
    tools: list[dict[str, Any]]
    """OpenAI function format, in the order in which the model sees them."""
    messages: list[dict[str, Any]]
    """Chat-completions messages behind the system one."""
    context_tokens: int | None


class RewindReply(Peer):
    """What was taken back."""

    session_id: str
    hidden: int
    """Messages that are hidden now."""
    message: UIMessage
    """The user message that was rewound to, for editing."""
    snapshot_id: str | None = Field(default=None, exclude_if=_absent)
    """The snapshot of the machine that belongs to this message, if the host made one."""


class UnrewindReply(Peer):
    """What was brought back."""

    session_id: str
    restored: int


# ---------------------------------------------------------------- requests


class SessionPatch(Inbound):
    """What may be changed of a session. What is left out stays."""

    title: str | None = Field(default=None, min_length=1, max_length=TITLE_CHARACTERS)
    """Its title; null takes it away."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Keys of the caller's own, merged into those that are there; null deletes a key."""
    model: str = Field(default="", min_length=1, max_length=200)
    """The model from the next turn on."""
    archived: bool = False
    """True puts the session away, false takes it back; an alias that it had is not restored."""
    agent: None = None
    """Not accepted: a session keeps its agent for life."""

    @field_validator("agent", mode="before")
    @classmethod
    def _fixed(cls, _: Any) -> None:
        raise ValueError("the agent of a session cannot be changed; begin another session")


class ForkRequest(Inbound):
    """How to branch off."""

    message_id: str | None = Field(default=None, min_length=1, max_length=200)
    """The last message to take along; none means all."""
    title: str | None = Field(default=None, min_length=1, max_length=TITLE_CHARACTERS)
    """Title of the new session; unset it is the old one and ` (copy)`."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Keys of the caller's own, merged into those of the old session; null deletes a key."""
    ephemeral: bool = False
    """A side conversation, which lists leave out."""


class RewindRequest(Inbound):
    """Where to go back to."""

    message_id: str = Field(min_length=1, max_length=200)
    """A user message; it and everything after it are hidden."""


class _Query(BaseModel):
    """Query parameters: unknown ones are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class SessionsQuery(_Query):
    """Which sessions to list."""

    limit: int = Field(default=50, ge=1, le=500)
    after: str | None = Field(default=None, min_length=1, max_length=200)
    archived: bool = False
    ephemeral: bool = False


class MessagesQuery(_Query):
    """Which messages to list."""

    limit: int = Field(default=200, ge=1, le=1000)
    after: str | None = Field(default=None, min_length=1, max_length=200)
    hidden: bool = False
    running: bool = False
    """The reply that is being made as well, as far as it is on disk."""


class ExportQuery(_Query):
    """How to export."""

    format: Literal["jsonl", "json"] = "jsonl"
