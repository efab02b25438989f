"""A session as its log makes it: lifecycle, state of its type, and place in the log. Append, restart and repair
all fold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json  # noqa: TID251  reads our own snapshots

from .envelope import Envelope
from .errors import AccessDeniedError, ProtocolError
from .event_types import EV_SESSION_OPENED, HUB_ID, is_protocol_event
from .expectations import Expectation, Overdue, next_due
from .session import SessionInfo, fold_lifecycle, validate_lifecycle
from .session_types import Knobs, SessionType, read_knobs, state_adapter


@dataclass(frozen=True, slots=True)
class FoldedSession:
    """All that follows from a session's log up to a sequence."""

    info: SessionInfo
    state: Any
    """That of the session's type."""
    sequence: int = 0
    """The last envelope that is folded in."""
    last_id: str = ""
    """Its id."""
    opened_at: int = 0
    """Epoch milliseconds; 0 while it is pending."""
    last_at: int = 0
    """When anything was said last that is not about the session itself; epoch milliseconds."""


def begin(session_type: SessionType[Any], info: SessionInfo) -> FoldedSession:
    """A session before its first envelope. Raises ProtocolError if it cannot be opened so."""
    return FoldedSession(info, session_type.initial_state(info.participants, info.knobs))


def validate(session_type: SessionType[Any], folded: FoldedSession, envelope: Envelope) -> None:
    """Raise AccessDeniedError or ProtocolError unless the session allows this envelope now."""
    info = folded.info
    sender = envelope.sender_id
    if sender != HUB_ID and not info.has(sender):
        raise AccessDeniedError(f"{sender or 'nobody'} does not take part in the session {info.session_id}")
    for one in envelope.audience or ():
        if not info.has(one):
            raise ProtocolError(f"audience: {one} does not take part in the session {info.session_id}")
    validate_lifecycle(info, envelope)
    session_type.validate_send(folded.state, envelope)


def fold(session_type: SessionType[Any], folded: FoldedSession, envelope: Envelope) -> FoldedSession:
    """The session after the next envelope of its log."""
    kind = envelope.event_type
    at = envelope.created_at
    return FoldedSession(
        fold_lifecycle(folded.info, envelope),
        session_type.fold(folded.state, envelope),
        envelope.sequence,
        envelope.envelope_id,
        at if kind == EV_SESSION_OPENED else folded.opened_at,
        folded.last_at if is_protocol_event(kind) or envelope.sender_id == HUB_ID else at,
    )


def expectations_of(session_type: SessionType[Any], info: SessionInfo) -> tuple[Expectation, ...]:
    """What the session expects: as its opener has chosen, else as its type has it."""
    chosen = read_knobs(Knobs, session_type.name, {"expectations": info.knobs.get("expectations")}).expectations
    return session_type.expectations if chosen is None else chosen


def overdue_times(
    session_type: SessionType[Any], folded: FoldedSession, expectations: tuple[Expectation, ...]
) -> list[Overdue]:
    """When each expectation that holds now is violated."""
    turn = session_type.expected_next(folded.state) if folded.info.state == "active" else None
    return next_due(expectations, folded.info, turn, folded.opened_at, folded.last_at)


@cache
def _info_adapter() -> TypeAdapter[SessionInfo]:
    return TypeAdapter(SessionInfo)


def dump_session(session_type: SessionType[Any], folded: FoldedSession) -> str:
    """The session as JSON, for a snapshot."""
    return to_json(
        {
            "info": _info_adapter().dump_python(folded.info, mode="json"),
            "state": state_adapter(session_type.state_type).dump_python(folded.state, mode="json"),
            "sequence": folded.sequence,
            "last_id": folded.last_id,
            "opened_at": folded.opened_at,
            "last_at": folded.last_at,
        }
    ).decode()


def load_session(session_type: SessionType[Any], text: str) -> FoldedSession:
    """Read a snapshot."""
    stored = from_json(text)
    info = _info_adapter().validate_python(stored.pop("info"))
    state = state_adapter(session_type.state_type).validate_json(to_json(stored.pop("state")))
    return FoldedSession(info, state, **stored)


def dump_info(info: SessionInfo) -> dict[str, Any]:
    """What a session is, as JSON, for callers."""
    found: dict[str, Any] = _info_adapter().dump_python(info, mode="json")
    return found


def load_info(stored: object) -> SessionInfo:
    """Read what a hub has answered."""
    return _info_adapter().validate_python(stored)
