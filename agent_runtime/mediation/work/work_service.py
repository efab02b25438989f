"""Accept requests and follow each to its end. Outlives every connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.work import (
    DEADLINE_EXCEEDED,
    Cancel,
    Nack,
    Resume,
    ResumeOk,
    Verdict,
    WorkRequest,
)
from agent_common.telemetry import logger

from ...errors import StoreError
from ...ports import Clock
from ...store import Database
from ..constraints.constraints import ConstraintService
from ..ledger import ledger
from ..ledger.outbox import FrameSender, Outbox
from .active_work import ActiveWork, PendingWork
from .request_limits import WindowFull, WorkRefused, check_bounds
from .task_reporter import TaskReporter
from .turn_worker import WorkRunner, WorkStop, refusal_result
from .window import RequestWindow
from .work_follower import GIVE_UP_SECONDS, WorkFollower

log = logger(__name__)
MAX_RESUME_IDS = 4096
"""Maximum requests named in one frame."""
MAX_PENDING_LOOKUPS = 64
"""Maximum concurrent lookups of requests beyond the window; further ones are refused without a lookup."""
_OTHER = "this id was used for other work"


@dataclass(slots=True)
class WorkRules:
    """Rules that decide whether a request is accepted."""

    window: int
    loose: bool
    """Whether unverified principals may give work; for development."""
    confined: bool = True
    """Whether commands have no network except through a metered proxy."""


@dataclass(slots=True)
class WorkService:
    """Accepts work requests. Call `open` once the loop exists, and `close` before it ends."""

    database: Database
    clock: Clock
    worker: WorkRunner
    constraints: ConstraintService
    rules: WorkRules
    outbox: Outbox
    reporter: TaskReporter | None = None
    """Reports the ends of other tasks; None if they are not reported."""
    draining: bool = False
    """Whether this process is shutting down."""
    paused: str | None = None
    """Why no new work is accepted at present; None if it is."""
    pending_constraints: int = 0
    """Number of constraints that are being applied."""
    _pending: dict[str, PendingWork] = field(default_factory=dict[str, PendingWork])
    _tasks: OwnedTasks = field(default_factory=OwnedTasks)
    _resending: asyncio.Task[None] | None = None
    _window: RequestWindow = field(init=False)
    active: WorkFollower = field(init=False)
    """The requests that are being worked on."""

    def __post_init__(self) -> None:
        self._window = RequestWindow(self.rules.window)
        self.active = WorkFollower(self.outbox, self._window)

    async def open(self) -> None:
        """Resume the work of the previous process, and fail requests whose turn is gone."""
        for entry in await self.database.read(ledger.unfinished):
            job = self.worker.resume(entry)
            if job is not None:
                self.active.follow(entry.request, job)
            else:
                gone = refusal_result(
                    entry.request, "interrupted", "its turn is gone", self.clock.now_ms(), failed=True
                )
                await self.database.write(
                    lambda connection, gone=gone: ledger.save_result(connection, gone), durable=True
                )

    # -- frames of the host

    def submit(self, request: WorkRequest) -> None:
        """Accept a request. Replies are sent later, on the connection that is open then."""
        request_id = request.request_id
        if (known := self._pending.get(request_id)) is not None:
            if known.request.fingerprint() != request.fingerprint():
                self._refuse(request, "request_id_conflict", _OTHER, failed=True)
        elif len(self._pending) >= self.rules.window + MAX_PENDING_LOOKUPS:
            self._refuse(request, "overloaded", f"{len(self._pending)} requests are being looked up already")
        else:
            pending = self._pending[request_id] = PendingWork(request)
            self._tasks.start(self._process(request, pending), f"work {request_id}")

    def cancel(self, cancel: Cancel) -> None:
        if (work := self.active.get(cancel.request_id)) is not None:
            self.active.cancel(work, _why(cancel))
        elif (pending := self._pending.get(cancel.request_id)) is not None:
            pending.cancelled = cancel
        else:
            self.outbox.send(Nack(code="unknown_request", request_id=cancel.request_id))

    async def acknowledge(self, request_id: str) -> None:
        """Record that the host has stored the result."""
        await self.outbox.acknowledge(request_id)

    # -- connections

    async def resume_frame(self) -> Resume:
        """Return the frame that lists running and unacknowledged requests. Those beyond its limit are sent all the
        same."""
        running = await self.database.read(lambda connection: ledger.unfinished_ids(connection, MAX_RESUME_IDS))
        unacked = await self.database.read(ledger.unacknowledged_ids)
        return Resume(running=running, unacked=unacked[:MAX_RESUME_IDS])

    def attach(self, sender: FrameSender, verdicts: ResumeOk | None) -> None:
        """Use the connection for results from now on. `verdicts` are the host's decisions after its welcome; None: only
        results that were never sent are sent."""
        self.outbox.sender = sender
        self.outbox.extended = verdicts is not None
        decisions = verdicts.verdicts if verdicts is not None else None
        if decisions is not None:
            self._apply_verdicts(decisions)
            for work in self.active:
                self.active.report_queued(work)
        self._stop_resending()
        self._resending = self._tasks.start(self.outbox.deliver_unacknowledged(decisions), "mediation outbox")

    def detach(self) -> None:
        self.outbox.sender = None
        self.outbox.extended = False
        self._window.cancel_waiting()
        self._stop_resending()

    async def finish_forgotten(self) -> None:
        """Wait until the work that the host has withdrawn has ended, or for a limited time."""
        tasks = [work.task for work in self.active if work.forgotten and work.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=GIVE_UP_SECONDS)

    async def stop_all(self, why: WorkStop) -> None:
        """End the running work as yielded, because the channel is down for too long or the constraints have changed."""
        await asyncio.gather(*(self.active.stop(work, why) for work in self.active))

    async def wait_idle(self) -> None:
        """Return once no request is being worked on."""
        while tasks := self.active.tasks():
            await asyncio.wait(tasks)

    async def wait_resent(self) -> None:
        """Return once the results of earlier connections were passed to this one."""
        if self._resending is not None:
            await asyncio.wait([self._resending])

    async def flush_results(self, seconds: float) -> None:
        """Give the results of ended work `seconds` to be passed to the connection."""
        if tasks := self.active.tasks():
            await asyncio.wait(tasks, timeout=seconds)

    async def close(self) -> None:
        await self._tasks.close()
        await self.active.close()
        await self.outbox.close()
        if self.reporter is not None:
            await self.reporter.close()

    # -- one request

    async def _process(self, request: WorkRequest, pending: PendingWork) -> None:
        """Handle the request from its arrival to its end, unless another task already does."""
        try:
            work = await self._start(request)
        finally:
            self._pending.pop(request.request_id, None)
            if self.active.get(request.request_id) is None:
                self._window.release(request.request_id)
        if pending.cancelled is not None and (known := self.active.get(request.request_id)) is not None:
            self.active.cancel(known, _why(pending.cancelled))
        if work is not None:
            await self.active.run_to_end(work)

    async def _start(self, request: WorkRequest) -> ActiveWork | None:
        """Start the work; None if it was refused, or another task follows it already."""
        try:
            again = True
            while again:
                try:
                    self._check_acceptable(request)
                    work = self.active.add(request, await self.worker.start(request))
                    work.task = asyncio.current_task()
                    self._accept(work)
                    return work
                except WorkRefused as error:  # most requests are new, so only refused ones are looked up
                    again = await self._handle_refusal(request, error)
        except StoreError as error:  # the same id may be sent again
            self._refuse(request, "overloaded", error.message)
        except Exception:
            log.exception("a request could not be accepted", request_id=request.request_id)
            self._refuse(request, "overloaded", "internal error in the runtime; see its log")
        return None

    async def _handle_refusal(self, request: WorkRequest, error: WorkRefused) -> bool:
        """Answer a refused request and return whether it may be tried again. A known request is answered in any case. A
        host without a window cannot respect it, so its request waits for a place."""
        entry = await self.outbox.find(request.request_id)
        if entry is not None:
            await self._rejoin(request, entry)
        elif (
            isinstance(error, WindowFull)
            and not self.outbox.extended
            and await self._window.wait_for_slot(request.request_id)
        ):
            return True
        else:
            self._denied(request, error)
        return False

    async def _rejoin(self, request: WorkRequest, entry: ledger.WorkEntry) -> None:
        """Follow a known request, or send its result again."""
        if entry.fingerprint != request.fingerprint():
            self._refuse(request, "request_id_conflict", _OTHER, failed=True)
        elif entry.result is not None:
            # Each attempt has its own audit_ref, and the record is about this attempt.
            await self.outbox.deliver(entry.result.model_copy(update={"audit_ref": request.audit_ref}))
        else:
            work = self.active.get(request.request_id) or self.active.follow(entry.request, self.worker.resume(entry))
            work.forgotten = False
            self._accept(work)

    def _accept(self, work: ActiveWork) -> None:
        """Tell the host that it is accepted, and whether it begins later."""
        self.outbox.send_signal("accepting", work.request.request_id)
        self.active.report_queued(work)

    def _check_acceptable(self, request: WorkRequest) -> None:
        """Check the request and take a place in the window. Raises WorkRefused."""
        held = self.constraints.active
        if self.active.get(request.request_id) is not None:
            raise WorkRefused("overloaded", "it is already being worked on")
        if self.draining or self.paused:
            raise WorkRefused("draining", self.paused or "this agent is shutting down")
        if self.pending_constraints:
            raise WorkRefused("constraints_outdated", "new constraints are being applied")
        if not request.principal.verified and not self.rules.loose:
            raise WorkRefused("unverified_principal", f"the identity of {request.principal.name} is not verified")
        if self.constraints.fault is not None:
            raise WorkRefused("constraints_outdated", self.constraints.fault)
        if request.constraints_version != held.version:
            text = f"version {request.constraints_version} is required, but {held.version} is in force"
            raise WorkRefused("constraints_outdated", text)
        check_bounds(request.bounds, confined=self.rules.confined)
        if not self._window.claim(request.request_id):
            raise WindowFull("overloaded", f"{self.rules.window} requests at a time")

    def _apply_verdicts(self, verdicts: Mapping[str, Verdict]) -> None:
        """Cancel the active requests that the host no longer wants."""
        for work in self.active:
            work.forgotten = verdicts.get(work.request.request_id) in ("cancel", "forget")
            if work.forgotten:
                self.active.cancel(work, "cancelled")

    # -- helpers

    def _denied(self, request: WorkRequest, error: WorkRefused) -> None:
        if error.code == "constraints_outdated":
            self.outbox.send_signal("constraints_outdated", request.request_id, error=str(error))
        self._refuse(request, error.code, error.text, failed=error.code == "request_id_conflict")

    def _refuse(self, request: WorkRequest, code: str, text: str, *, failed: bool = False) -> None:
        self.outbox.send(refusal_result(request, code, text, self.clock.now_ms(), failed=failed))

    def _stop_resending(self) -> None:
        if self._resending is not None:
            self._resending.cancel()
            self._resending = None


def _why(cancel: Cancel) -> WorkStop:
    return "host_deadline" if cancel.reason == DEADLINE_EXCEEDED else "cancelled"
