"""Apply the constraints that the host pushes over a connection."""

from __future__ import annotations

import asyncio

from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.work import Constraints
from agent_common.telemetry import logger

from ..constraints.constraint_payload import InvalidConstraints
from ..constraints.constraints import ConstraintService, PushedConstraints
from ..work.work_service import WorkService
from .signals import Signals

log = logger(__name__)
STOP_SECONDS = 20.0
"""Seconds that work stopped by urgent constraints has to end before they are acknowledged in any case."""
MAX_PENDING_CONSTRAINTS = 8
"""Maximum constraints that wait to be applied."""


class ConstraintPushes:
    """The constraints that wait to be applied. Close it with its connection."""

    def __init__(self, constraints: ConstraintService, work_service: WorkService, signals: Signals) -> None:
        self._constraints = constraints
        self._work_service = work_service
        self._signals = signals
        self._tasks = OwnedTasks()

    def receive(self, frame: Constraints) -> None:
        """Apply the constraints later, or at once if they are urgent, and tell the host."""
        pushed = self._constraints.match_payload(frame)
        if self._work_service.pending_constraints >= MAX_PENDING_CONSTRAINTS:
            error = f"constraints_busy: {MAX_PENDING_CONSTRAINTS} versions wait already"
            self._signals.send("constraints_outdated", error=error)
        else:
            self._work_service.pending_constraints += 1
            self._tasks.start(self._apply(pushed), "constraints").add_done_callback(self._on_done)

    async def close(self) -> None:
        await self._tasks.close()

    def _on_done(self, _: asyncio.Task[None]) -> None:
        """Count down here, because a task that is cancelled before it begins runs no code of its own."""
        self._work_service.pending_constraints -= 1

    async def _apply(self, pushed: PushedConstraints) -> None:
        """Apply constraints once no work is running. Urgent ones are applied at once and stop the running work."""
        try:
            if not pushed.urgent:
                await self._work_service.wait_idle()
            held = await self._constraints.apply(pushed)
            if pushed.urgent:
                await self._work_service.stop_all("constraints")
                await self._work_service.flush_results(STOP_SECONDS)
        except InvalidConstraints as error:
            log.error("constraints were refused", code=error.code, error=str(error))
            self._signals.send("constraints_outdated", error=f"{error.code}: {error}"[:1000])
        except OSError as error:
            log.error("constraints could not be stored", error=str(error))
            self._signals.send("constraints_outdated", error=f"constraints_not_kept: {error}"[:1000])
        else:
            self._signals.acknowledge(held)
