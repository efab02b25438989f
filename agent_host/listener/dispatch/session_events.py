"""The table of what happens at each event of a session. `SessionEvents` says what each event means."""

from __future__ import annotations

from agent_common.protocol.work import ConstraintAck, LifecycleSignal, Nack, Resume, TaskReport, WorkResult

from ..channels.channel import AttachedAgent
from ..channels.workspace_channels import WorkspaceChannels
from ..ledger.work import OpenWork
from .ack_timeouts import AckTimeouts
from .constraints import ConstraintEnforcer
from .dispatcher import Dispatcher
from .results import ResultHandler
from .resume import ResumeHandler
from .retries import WorkRetries
from .task_reports import TaskReports


class SessionEventHandler:
    """Implements `SessionEvents`: passes each event to the class that decides."""

    def __init__(
        self,
        *,
        channels: WorkspaceChannels,
        dispatcher: Dispatcher,
        retries: WorkRetries,
        ack_timeouts: AckTimeouts,
        constraints: ConstraintEnforcer,
        results: ResultHandler,
        reports: TaskReports,
        resume: ResumeHandler,
    ) -> None:
        self._channels, self._dispatcher, self._retries = channels, dispatcher, retries
        self._ack_timeouts, self._constraints = ack_timeouts, constraints
        self._results, self._reports, self._resume = results, reports, resume

    # ---------------------------------------------------------------- states

    def on_resume(self, session: AttachedAgent, resume: Resume) -> None:
        self._resume.on_resume(session, resume)

    def on_resumed(self, session: AttachedAgent) -> None:
        """Retry the work that the agent has lost; then let it get work, as soon as it has the constraints in force."""
        self._retries.retry_lost(session.channel)
        self._constraints.ensure_acknowledged(session)

    def on_slot_freed(self, session: AttachedAgent) -> None:
        self._ack_timeouts.start_if_idle(session)
        self._dispatcher.send_queued(session.channel)

    def on_abandoned(self, session: AttachedAgent, work: OpenWork, why: str) -> None:
        del session
        self._retries.retry(work, why)

    def on_detached(self, session: AttachedAgent, slots: dict[str, OpenWork]) -> None:
        """Stop what waits for the agent, and keep the work that it had."""
        self._ack_timeouts.stop(session.channel)
        self._channels.on_detached()
        self._retries.on_detached(session.channel, slots)

    # ---------------------------------------------------------------- frames

    def on_accepting(self, session: AttachedAgent, signal: LifecycleSignal) -> None:
        self._results.on_accepting(session, signal)

    def on_completed(self, session: AttachedAgent, signal: LifecycleSignal) -> None:
        self._results.on_completed(session, signal)

    def on_result(self, session: AttachedAgent, result: WorkResult) -> None:
        self._results.on_result(session, result)

    def on_task_report(self, session: AttachedAgent, report: TaskReport) -> None:
        self._reports.on_report(session, report)

    def on_nack(self, session: AttachedAgent, nack: Nack) -> None:
        self._results.on_nack(session, nack)

    def on_constraint_ack(self, session: AttachedAgent, ack: ConstraintAck) -> None:
        self._constraints.on_ack(session, ack)

    def on_constraints_outdated(self, session: AttachedAgent) -> None:
        self._constraints.on_outdated(session)
