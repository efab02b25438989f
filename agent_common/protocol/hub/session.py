"""The lifecycle of a session, as a fold of its envelopes: pending, active, then closed or expired."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .envelope import Envelope
from .errors import ProtocolError
from .event_types import (
    EV_EXPECTATION_VIOLATED,
    EV_SESSION_CLOSED,
    EV_SESSION_EXPIRED,
    EV_SESSION_INVITE_ACK,
    EV_SESSION_INVITE_REJECT,
    EV_SESSION_OPENED,
    HUB_ID,
    INVITE_ANSWERS,
    is_hub_event,
)

SessionState = Literal["pending", "active", "closed", "expired"]
Role = Literal["initiator", "respondent", "participant"]


@dataclass(frozen=True, slots=True)
class Participant:
    """An agent in a session."""

    agent_id: str
    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session without what was said in it."""

    session_id: str
    type: str
    version: int
    creator_id: str
    participants: tuple[Participant, ...]
    """In the order of turns; the creator is first."""
    created_at: int
    """Epoch milliseconds."""
    expires_at: int | None = None
    """Epoch milliseconds; None: never."""
    knobs: dict[str, Any] = field(default_factory=dict[str, Any])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    ancestors: tuple[str, ...] = ()
    """Creators of the sessions that this one was opened within, outermost first: they wait for it."""
    state: SessionState = "pending"
    pending_acks: tuple[str, ...] = ()
    """Ids of those who have not answered their invitation."""
    rejected_by: str | None = None
    """Id of the one who has declined."""
    removed: tuple[str, ...] = ()
    """Ids of those who were removed: they get and send nothing more."""
    closed_at: int | None = None
    close_reason: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be said in it."""
        return self.state in ("closed", "expired")

    def has(self, agent_id: str) -> bool:
        """Whether an agent takes part; one that was removed does not."""
        return any(one.agent_id == agent_id for one in self.participants) and agent_id not in self.removed

    def ids(self) -> tuple[str, ...]:
        """Ids of those who take part."""
        return tuple(one.agent_id for one in self.participants if one.agent_id not in self.removed)

    def names(self) -> dict[str, str]:
        """Names by id."""
        return {one.agent_id: one.name for one in self.participants}


def roles(ids_and_names: tuple[tuple[str, str], ...]) -> tuple[Participant, ...]:
    """The participants of a new session, the creator first."""
    other: Role = "respondent" if len(ids_and_names) == 2 else "participant"
    return tuple(
        Participant(agent_id, name, other if at else "initiator") for at, (agent_id, name) in enumerate(ids_and_names)
    )


def validate_lifecycle(info: SessionInfo, envelope: Envelope) -> None:
    """Raise ProtocolError unless the session is in a state in which this may be sent."""
    kind = envelope.event_type
    sender = envelope.sender_id
    if info.is_over:
        raise ProtocolError(f"the session {info.session_id} is {info.state}: {info.close_reason}")
    if sender == HUB_ID:
        return
    if kind in INVITE_ANSWERS:
        if info.state != "pending" or sender not in info.pending_acks:
            raise ProtocolError(f"{kind}: no invitation of {sender} waits for an answer")
    elif is_hub_event(kind):
        raise ProtocolError(f"event_type: only the hub sends {kind}")
    elif info.state == "pending":
        raise ProtocolError(f"the session {info.session_id} is not open yet: an invitation waits for its answer")


def fold_lifecycle(info: SessionInfo, envelope: Envelope) -> SessionInfo:
    """The session after an envelope. Most change nothing."""
    kind = envelope.event_type
    sender = envelope.sender_id
    data = envelope.event_data
    if not kind.startswith(("ag2.session.", EV_EXPECTATION_VIOLATED)):
        return info
    if kind == EV_SESSION_INVITE_ACK:
        return replace(info, pending_acks=tuple(one for one in info.pending_acks if one != sender))
    if kind == EV_SESSION_INVITE_REJECT:
        return replace(info, rejected_by=info.rejected_by or sender)
    if kind == EV_SESSION_OPENED:
        return replace(info, state="active")
    if kind in (EV_SESSION_CLOSED, EV_SESSION_EXPIRED):
        state: SessionState = "closed" if kind == EV_SESSION_CLOSED else "expired"
        return replace(info, state=state, closed_at=envelope.created_at, close_reason=str(data.get("reason", "")))
    if kind == EV_EXPECTATION_VIOLATED and data.get("action") == "remove":
        gone = tuple(one for one in data.get("violators", ()) if info.has(one))
        waiting = tuple(one for one in info.pending_acks if one not in gone)
        return replace(info, removed=info.removed + gone, pending_acks=waiting)
    return info
