"""What an attached agent may say, and who deals with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_common.protocol.work import (
    ConstraintAck,
    IdentityRevision,
    LifecycleSignal,
    Nack,
    Ping,
    Pong,
    Progress,
    Resume,
    UnknownControl,
    WorkResult,
)

from ..dispatch import constraints, results, resuming
from ..parts import Parts

if TYPE_CHECKING:
    from .session import AgentSession


def _signal(parts: Parts, session: AgentSession, signal: LifecycleSignal) -> None:
    match signal.signal:
        case "accepting":
            results.on_accepting(parts, session, signal)
        case "completed":
            results.on_completed(parts, session, signal)
        case "quarantined":
            session.alarm("guest_says_quarantined", signal.detail or "only a host can say that; ignored")
        case "constraints_outdated":
            constraints.on_outdated(parts, session)
        case "mediation_broken" | "ready":
            return


def _resume(parts: Parts, session: AgentSession, resume: Resume) -> None:
    if session.state == "resuming":
        resuming.answer_resume(parts, session, resume)
        session.on_resumed()


def _progress(_: Parts, session: AgentSession, progress: Progress) -> None:
    work = session.slots.get(progress.request_id)
    if work is not None and work.active:
        work.notify(progress)


def _ping(_: Parts, session: AgentSession, ping: Ping) -> None:
    session.send(Pong(n=ping.n), droppable=True)


def _nack(parts: Parts, session: AgentSession, nack: Nack) -> None:
    if nack.request_id is not None:
        results.on_nack(parts, session, nack)


def _ignore(_: Parts, __: AgentSession, ___: object) -> None:
    """Younger than we are, or of no consequence; the trail has it."""


HANDLERS: dict[type, Callable[[Parts, AgentSession, Any], None]] = {
    LifecycleSignal: _signal,
    WorkResult: results.on_result,
    ConstraintAck: constraints.on_ack,
    Resume: _resume,
    Progress: _progress,
    Ping: _ping,
    Nack: _nack,
    Pong: _ignore,
    IdentityRevision: _ignore,
    UnknownControl: _ignore,
}
