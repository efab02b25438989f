"""Construct the classes of this package and connect them."""

from __future__ import annotations

from agent_common.backoff import Draw
from agent_common.clock import Clock
from agent_common.owned_tasks import OwnedTasks

from ..audit.audit_log import AuditLog
from ..channels.workspace_channels import WorkspaceChannels
from ..ledger.ledger import WorkLedger
from ..limits import ListenerLimits
from ..metrics import Metrics
from ..owner import WorkspaceOwner
from ..timers import Timers
from .ack_timeouts import AckTimeouts
from .cancellation import WorkCanceller
from .constraints import ConstraintEnforcer
from .deadlines import WorkDeadlines
from .dispatcher import Dispatcher, SendGate
from .recovery import WorkRecovery
from .results import ResultHandler
from .resume import ResumeHandler
from .retries import RetryPauses, WorkRetries
from .task_reports import TaskReports


class Dispatch:
    """All classes of this package, constructed for the listener."""

    def __init__(
        self,
        *,
        ledger: WorkLedger,
        reports: TaskReports,
        channels: WorkspaceChannels,
        owner: WorkspaceOwner,
        audit_log: AuditLog,
        metrics: Metrics,
        timers: Timers,
        clock: Clock,
        limits: ListenerLimits,
        draw: Draw,
    ) -> None:
        self._tasks = OwnedTasks()
        self.gate = SendGate(owner)
        deadlines = WorkDeadlines(ledger=ledger, audit_log=audit_log, timers=timers, clock=clock, limits=limits)
        self.dispatcher = Dispatcher(
            ledger=ledger, channels=channels, gate=self.gate, deadlines=deadlines, metrics=metrics
        )
        self.retries = WorkRetries(
            ledger=ledger,
            dispatcher=self.dispatcher,
            deadlines=deadlines,
            pauses=RetryPauses(limits=limits, draw=draw),
            audit_log=audit_log,
            metrics=metrics,
            clock=clock,
        )
        self.ack_timeouts = AckTimeouts(
            channels=channels, owner=owner, audit_log=audit_log, tasks=self._tasks, timers=timers, clock=clock
        )
        self.constraints = ConstraintEnforcer(
            channels=channels,
            dispatcher=self.dispatcher,
            ack_timeouts=self.ack_timeouts,
            audit_log=audit_log,
            tasks=self._tasks,
        )
        self.results = ResultHandler(
            ledger=ledger,
            retries=self.retries,
            deadlines=deadlines,
            constraints=self.constraints,
            metrics=metrics,
            limits=limits,
        )
        self.reports = reports
        self.resume = ResumeHandler(ledger=ledger, retries=self.retries, deadlines=deadlines, limits=limits)
        self.canceller = WorkCanceller(ledger=ledger, channels=channels, deadlines=deadlines, limits=limits)
        self.recovery = WorkRecovery(
            ledger=ledger,
            channels=channels,
            dispatcher=self.dispatcher,
            retries=self.retries,
            deadlines=deadlines,
            clock=clock,
            limits=limits,
        )

    async def close(self, seconds: float) -> None:
        """Wait up to `seconds` for rows that are written in the background."""
        await self._tasks.close(seconds)
