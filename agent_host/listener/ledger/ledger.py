"""The durable ledger of work. Each request id ends with exactly one recorded result, or the reason why there is none.

After a crash the rows are authoritative. While the host runs, the open ones are in memory, and changes are written to
the database.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import structlog
from sqlalchemy import Connection, RowMapping, select

from agent_common.clock import Clock
from agent_common.protocol.work import WorkRequest, WorkResult

from ...database import work as table
from ...errors import Conflict, InvalidRequest, NotFound, RequestError, Unavailable
from ..audit.audit_log import AuditLog
from ..limits import ListenerLimits
from ..metrics import Metrics
from .ledger_writer import LedgerWriter
from .rows import record_from_row, work_from_row
from .states import SENT, FinalStatus, Status
from .task_results import TaskResults
from .work import LedgerRecord, OpenWork, fingerprint

log = structlog.get_logger(__name__)
_RECENT = 8192
"""Finished requests whose workspace is kept in memory."""


def _ignore(_work: OpenWork) -> None:
    return


class LedgerFull(RequestError):
    """The ledger holds the maximum of open work."""

    status = 429
    code = "queue_full"


class WorkLedger:
    """Holds open work in memory by id, and reads finished work from the database."""

    def __init__(
        self,
        *,
        writer: LedgerWriter,
        task_results: TaskResults,
        audit_log: AuditLog,
        metrics: Metrics,
        clock: Clock,
        limits: ListenerLimits,
    ) -> None:
        self._task_results = task_results
        self.writer = writer
        self._audit_log = audit_log
        self._metrics = metrics
        self._clock = clock
        self._limits = limits
        self.active: dict[str, OpenWork] = {}
        self._admissions: dict[str, asyncio.Future[Any]] = {}
        self._recent_owners: OrderedDict[str, str] = OrderedDict()
        self._bytes = 0
        """Size of the open requests."""
        self.on_change: Callable[[OpenWork], None] = _ignore
        """Called with new work, and after each change of its status or of the number of its attempts."""

    # ---------------------------------------------------------------- admission

    async def load(self) -> list[OpenWork]:
        """Load and return the work that an earlier process has left open. Work that was sent counts as lost until its
        agent reports its state."""
        query = select(table).where(table.c.finished_at.is_(None)).order_by(table.c.submitted_at)
        rows = await self.writer.run(lambda connection: list(connection.execute(query).mappings()))
        for row in rows:
            work = work_from_row(row)
            self._add(work)
            if work.status in SENT:
                work.lost = True
                work.begun = work.status == "accepted"
                work.set_status("retry_wait", self._clock.now_ms())
            work.report_changes(self.on_change)
        return list(self.active.values())

    async def submit(
        self,
        workspace: str,
        request: WorkRequest,
        *,
        pinned: bool,
        expires_ms: int,
        enqueue: Callable[[OpenWork], None],
    ) -> tuple[LedgerRecord, bool]:
        """Store the work and return its record. For work that is already known, return its record and True.

        `enqueue` is called with new work before it is on the disk, so that writing and sending share a commit.
        Raises InvalidRequest, Conflict for other work under the same id, LedgerFull, Unavailable.
        """
        if not request.principal.verified:
            why = "is false: agents refuse work of unverified principals"
            raise InvalidRequest(f"principal.verified {why}", faults=[("request.principal.verified", why)])
        digest = fingerprint(request, workspace, pinned=pinned)
        known = self.active.get(request.request_id)
        if known is not None:
            return await self._join_existing(known, digest), True
        self._check_capacity(workspace, request)
        now = self._clock.now_ms()
        fresh = OpenWork(request, workspace, digest, pinned, now, now + expires_ms, updated_at=now)
        self._add(fresh)
        future = self._admissions[fresh.id] = self.writer.admit(fresh)
        future.add_done_callback(lambda ended: self._on_admitted(fresh, ended))
        enqueue(fresh)
        row = await asyncio.shield(future)
        if row is not None:
            self._check_same_work(row["fingerprint"], digest, fresh.id)
            self._metrics.count("replays")
            return record_from_row(row), True
        return fresh.to_record(), False

    def _check_capacity(self, workspace: str, request: WorkRequest) -> None:
        too_many = len(self.active) >= self._limits.most_work
        if too_many or self._bytes + len(request.content) > self._limits.most_bytes:
            raise LedgerFull(
                f"{len(self.active)} requests are open, which is the maximum of the ledger; try again later",
                headers={"retry-after": "5"},
            )
        if self.writer.is_full(workspace):
            text = f"the audit trail of {workspace!r} is not written fast enough, so it gets no work; try again later"
            raise Unavailable(text, code="audit_full")

    def _on_admitted(self, work: OpenWork, ended: asyncio.Future[Any]) -> None:
        """Update the state of new work; runs before the coroutines that wait for the admission."""
        self._admissions.pop(work.id, None)
        if ended.cancelled() or ended.exception() is not None or ended.result() is not None:
            work.refused = True
            work.disarm()
            self._remove(work)
            return
        self._metrics.count("requests")
        self._audit_log.event("submitted", workspace=work.workspace, request_id=work.id)
        self.on_change(work)
        work.report_changes(self.on_change)

    async def _join_existing(self, work: OpenWork, digest: str) -> LedgerRecord:
        self._check_same_work(work.fingerprint, digest, work.id)
        admission = self._admissions.get(work.id)
        if admission is not None:
            row = await asyncio.shield(admission)
            if row is not None:
                self._check_same_work(row["fingerprint"], digest, work.id)
                return record_from_row(row)
        self._metrics.count("replays")
        return work.to_record() if work.active else await self.read(work.id)

    def _check_same_work(self, known: str, given: str, request_id: str) -> None:
        if known != given:
            self._metrics.count("conflicts")
            raise Conflict(
                f"request_id: {request_id!r} names other work already; take another id", code="work_conflict"
            )

    def _add(self, work: OpenWork) -> None:
        self.active[work.id] = work
        self._bytes += work.size

    def _remove(self, work: OpenWork) -> None:
        if self.active.get(work.id) is work:
            del self.active[work.id]
            self._bytes -= work.size

    # ---------------------------------------------------------------- changes

    def change_status(self, work: OpenWork, status: Status) -> None:
        """Set the status; the row is written soon, and nothing depends on when. Raises IllegalTransition."""
        work.set_status(status, self._clock.now_ms())
        self.writer.save_later(work)

    def save_status(self, work: OpenWork, status: Status, callback: Callable[[], None]) -> None:
        """Set the status, write the row, and call back once it is durable. Raises IllegalTransition."""
        work.set_status(status, self._clock.now_ms())
        self.writer.save(work, callback)

    # ---------------------------------------------------------------- ends

    def _log_failure(self, work: OpenWork) -> None:
        """Log a warning about work that failed. The audit trail has the end of all work."""
        answered = work.result.status if work.result is not None else None
        if answered == "completed" or work.status == "cancelled":
            return
        error = work.error or (work.result.error if work.result is not None else None)
        facts = {"request_id": work.id, "workspace": work.workspace, "status": work.status, "result": answered}
        known = {name: value for name, value in {**facts, "error": error}.items() if value is not None}
        log.warning("work_failed", **known)

    def finish(
        self,
        work: OpenWork,
        status: FinalStatus,
        *,
        result: WorkResult | None = None,
        error: str | None = None,
        on_saved: Callable[[], None] | None = None,
    ) -> None:
        """End the request, once. When the end is durable, call `on_saved`, then notify the watchers. Work whose
        admission is pending ends after it."""
        admission = self._admissions.get(work.id)
        if admission is not None:
            admission.add_done_callback(
                lambda _: (
                    self.finish(work, status, result=result, error=error, on_saved=on_saved)
                    if work.active and not work.refused
                    else None
                )
            )
            return
        now = self._clock.now_ms()
        work.set_status(status, now)
        work.result = result
        work.error = error
        work.finished_at = now
        work.lost = False
        if status == "dead":
            self._metrics.count("dead", (error or "").split(":", 1)[0])
        if result is not None:
            self._metrics.count("results", result.status)
        self._audit_log.event(
            status,
            error or (result.status if result else None),
            workspace=work.workspace,
            epoch=work.epoch,
            request_id=work.id,
        )
        self._log_failure(work)
        task_result = self._task_results.row_of_work(work, result) if result is not None else None

        def ended() -> None:
            work.recorded = True
            self._remove(work)
            self._remember_owner(work)
            if on_saved is not None:
                on_saved()
            if task_result is not None:
                self._task_results.announce(task_result)
            work.notify()

        self.writer.save(work, ended, task_result)

    def _remember_owner(self, work: OpenWork) -> None:
        self._recent_owners[work.id] = work.workspace
        if len(self._recent_owners) > _RECENT:
            self._recent_owners.popitem(last=False)

    async def owner(self, request_id: str) -> str | None:
        """Return the workspace of a request, open or finished; None if there is no such request."""
        known = self._recent_owners.get(request_id)
        if known is not None:
            return known
        query = select(table.c.workspace).where(table.c.request_id == request_id)
        return await self.writer.read(lambda connection: connection.execute(query).scalar())

    def find_open(self, request_id: str) -> OpenWork | None:
        """Return admitted work that is still open; None if there is none."""
        work = self.active.get(request_id)
        return work if work is not None and work.active and request_id not in self._admissions else None

    async def read(self, request_id: str) -> LedgerRecord:
        """Return the current record of a request. Raises NotFound."""
        known = self.active.get(request_id)
        if known is not None and request_id not in self._admissions:
            if known.active:
                return known.to_record()
            await self.writer.flush()  # an end is reported only once it is on disk
            if known.recorded:
                return known.to_record()
        query = select(table).where(table.c.request_id == request_id)

        def work(connection: Connection) -> RowMapping | None:
            return connection.execute(query).mappings().first()

        row = await self.writer.read(work)
        if row is None:
            raise NotFound(f"there is no work {request_id!r}")
        return record_from_row(row)

    async def current_record(self, work: OpenWork) -> LedgerRecord:
        """Return the record of work that the caller holds, without reading the disk if it is in memory."""
        return work.to_record() if work.recorded else await self.read(work.id)

    def mark_delivered(self, record: LedgerRecord) -> None:
        """Store that a caller has received the end of the request."""
        if record.is_finished:
            self.writer.mark_delivered(record.request_id, self._clock.now_ms())
