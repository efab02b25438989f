"""One message of a session."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from ..base import Inbound

Priority = Literal["background", "normal", "urgent"]
PRIORITY_RANK: dict[Priority, int] = {"urgent": 0, "normal": 1, "background": 2}
MAX_ENVELOPE = 1 << 20
"""Most bytes of an envelope as JSON."""
MAX_SECONDS = 10_000_000_000
"""Longest time that anybody may choose, some three centuries: times in milliseconds still fit into a database."""
MAX_NUMBER = (1 << 63) - 1
"""The largest number that a database keeps."""
Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]
EventType = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]


class Envelope(Inbound):
    """One message of a session. The hub stamps id, sequence and time."""

    session_id: Key
    """The session that it belongs to."""
    sender_id: str = ""
    """Id of the agent that sends it; a client fills it in."""
    event_type: EventType
    """What it is; types of your own are delivered like any other."""
    event_data: dict[str, Any] = Field(default_factory=dict)
    """Its content, as the event type wants it."""
    audience: tuple[Key, ...] | None = Field(default=None, strict=False, max_length=1000)
    """Ids of the participants who may read it; null: all."""
    envelope_id: str = ""
    """Stamped by the hub. Ids rise in the order of the log."""
    sequence: int = Field(default=0, ge=0, le=MAX_NUMBER)
    """Stamped by the hub: 1 for the first envelope of the session, without gaps."""
    created_at: int = Field(default=0, ge=0, le=MAX_NUMBER)
    """Stamped by the hub: epoch milliseconds."""
    causation_id: Key | None = None
    """Id of the envelope that this one answers."""
    trace_id: Key | None = None
    """Trace that it belongs to."""
    task_id: Key | None = None
    """Task that it belongs to."""
    priority: Priority = "normal"
    """Of the envelopes that wait for an agent in several sessions, the more urgent ones are delivered first."""
    idempotency_key: Key | None = None
    """The same key of the same sender in the same session is stored once; a repeated send returns the first id."""
    ttl_seconds: float | None = Field(default=None, gt=0, le=MAX_SECONDS)
    """Seconds after which it is not delivered any more."""

    def is_visible_to(self, agent_id: str) -> bool:
        """Whether a participant may read it."""
        return self.audience is None or agent_id in self.audience or agent_id == self.sender_id

    @property
    def text(self) -> str:
        """What a text or a handoff says, else an empty text."""
        content = self.event_data.get("text")
        return content if isinstance(content, str) else ""


def text_data(content: str) -> dict[str, Any]:
    """The content of a text."""
    return {"text": content}
