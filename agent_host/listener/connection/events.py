"""The events of a session, and the services that all sessions of a listener share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agent_common.clock import Clock
from agent_common.protocol.work import ConstraintAck, LifecycleSignal, Nack, Resume, TaskReport, WorkResult

from ..audit.audit_log import AuditLog
from ..channels.channel import AttachedAgent
from ..ledger.work import OpenWork
from ..limits import ListenerLimits
from ..metrics import Metrics
from ..timers import Timers
from .parsing import FrameParser


class SessionEvents(Protocol):
    """Receives the events of sessions and decides what follows. Called in the event loop, so methods must not block."""

    def on_resume(self, session: AttachedAgent, resume: Resume) -> None:
        """The agent has listed the work that it still has, and waits for a verdict on each."""
        ...

    def on_resumed(self, session: AttachedAgent) -> None:
        """Both ends agree on the work of earlier connections."""
        ...

    def on_accepting(self, session: AttachedAgent, signal: LifecycleSignal) -> None:
        """The agent has started a request."""
        ...

    def on_completed(self, session: AttachedAgent, signal: LifecycleSignal) -> None:
        """The agent has finished a request; its slot is free."""
        ...

    def on_result(self, session: AttachedAgent, result: WorkResult) -> None: ...

    def on_task_report(self, session: AttachedAgent, report: TaskReport) -> None:
        """A task has ended that the agent was not given over the channel."""
        ...

    def on_nack(self, session: AttachedAgent, nack: Nack) -> None:
        """The agent has refused a frame."""
        ...

    def on_constraint_ack(self, session: AttachedAgent, ack: ConstraintAck) -> None: ...

    def on_constraints_outdated(self, session: AttachedAgent) -> None:
        """The agent reports that its constraints are not those in force."""
        ...

    def on_slot_freed(self, session: AttachedAgent) -> None: ...

    def on_abandoned(self, session: AttachedAgent, work: OpenWork, why: str) -> None:
        """The host has given up an attempt; the session ends next."""
        ...

    def on_detached(self, session: AttachedAgent, slots: dict[str, OpenWork]) -> None:
        """The session has ended. `slots`: the work that the agent still had."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionServices:
    """The services that connections use. Thousands of connections share one object, so each holds only a reference."""

    events: SessionEvents
    parser: FrameParser
    audit_log: AuditLog
    metrics: Metrics
    timers: Timers
    clock: Clock
    limits: ListenerLimits
