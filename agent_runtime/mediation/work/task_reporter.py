"""Report the ends of tasks that were not given over the channel. Outlives every connection."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator

from pydantic import ValidationError

from agent_common.protocol import TaskResult
from agent_common.protocol.work import FrameFault, TaskAck, TaskReport, decode, encode, read_frame
from agent_common.redaction import Redactor
from agent_common.telemetry import logger

from ...errors import StoreError
from ...loop import StoredTask, checked_result_url
from ...store import Database
from ..ledger.outbox import FrameSender
from ..ledger.task_reports import (
    WaitingReport,
    acknowledge_report,
    delete_reports,
    insert_report,
    waiting_reports,
)
from ..redaction import redact_frame

log = logger(__name__)
PAGE = 16
"""Reports that are read at a time."""
RETRY_SECONDS = 5.0
"""Seconds before the database is read again after a failure."""
MAX_ERROR_CHARACTERS = 1000
"""Characters of an error that are kept in a report that is cut."""


class TaskReporter:
    """Implements `TaskReports` of the loop. `attach` it to each connection whose host takes reports."""

    def __init__(self, database: Database, *, loose: bool) -> None:
        """`loose`: the channel speaks the loose dialect, which has no such frame."""
        self._database = database
        self._loose = loose
        self._host_takes: bool | None = None
        """Whether the host of the last connection takes reports; None before the first one."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # -- TaskReports of the loop

    def refusal(self) -> str | None:
        if self._loose:
            return "the loose dialect of its channel cannot report results"
        return "the host at its channel does not take results of tasks" if self._host_takes is False else None

    def record_end(self, connection: sqlite3.Connection, task_id: str, message_id: str) -> None:
        """Runs on the writer's thread. What it wakes reads after the commit of this transaction."""
        insert_report(connection, task_id, message_id)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._news.set)

    # -- connections

    def attach(self, sender: FrameSender | None) -> None:
        """Send all reports over this connection, and each further one. None: its host takes none."""
        self.detach()
        self._host_takes = sender is not None
        if sender is not None:
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._run(sender), name="mediation reports of tasks")

    def detach(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        task = self._task
        self._loop = None
        self.detach()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def acknowledge(self, ack: TaskAck) -> None:
        """Record that the host has the result. If that is lost, it is sent again and acknowledged again."""
        with contextlib.suppress(StoreError):
            await self._database.write(lambda connection: acknowledge_report(connection, ack.user, ack.task_id))

    async def _run(self, sender: FrameSender) -> None:
        try:
            await self._send_all(sender)
        except Exception:
            log.exception("ends of tasks are not reported before the next connection")

    async def _send_all(self, sender: FrameSender) -> None:
        after = 0
        while True:
            self._news.clear()
            found = await self._read(after)
            for waiting in found:
                after = waiting.seq
                await self._send(sender, waiting)
            if not found:
                await self._news.wait()

    async def _read(self, after: int) -> list[WaitingReport]:
        """Read the next reports, on the writer's thread: no report may go out before its transaction is on disk."""
        while True:
            try:
                return await self._database.write(
                    lambda connection: waiting_reports(connection, after, PAGE), durable=True
                )
            except StoreError as error:
                log.warning("ends of tasks cannot be read, retrying", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _send(self, sender: FrameSender, waiting: WaitingReport) -> None:
        """Send one report as fast as the host reads; one that cannot be sent must not hold up the others."""
        report = waiting.task and await asyncio.to_thread(prepare, waiting.task, sender.redactor, sender.max_line)
        if report is not None:
            sender.send(report)
            await sender.flush()
            return
        log.error("the end of a task cannot be reported", message_id=waiting.message_id)
        with contextlib.suppress(StoreError):
            await self._database.write(lambda connection: delete_reports(connection, [waiting.message_id]))


def prepare(task: StoredTask, redactor: Redactor, max_bytes: int) -> TaskReport | None:
    """Return the report without secrets, as a line that the host can read: cut if it must be, with a mark. None if even
    that does not fit, or if the task has a name that a frame cannot have."""
    try:
        return next((report for report in _versions(task, redactor) if _is_readable(report, max_bytes)), None)
    except ValidationError:
        return None


def _versions(task: StoredTask, redactor: Redactor) -> Iterator[TaskReport]:
    """Yield the whole report, then what is left without the result, and without what it promotes."""
    record = task.record
    url = task.assignment.result_url
    result = TaskResult(**{name: getattr(record, name) for name in TaskResult.model_fields})
    whole = TaskReport(
        task_id=record.task_id,
        user=task.principal,
        finished_at=record.finished_at or 0,
        result=result,
        result_url=checked_result_url(url) if url is not None else None,
        promotion_rule=task.assignment.promotion_rule,
    )
    yield redact_frame(whole, redactor)
    error = result.error[:MAX_ERROR_CHARACTERS] if result.error is not None else None
    small = result.model_copy(update={"result": None, "error": error})
    yield redact_frame(whole.model_copy(update={"result": small, "truncated": True}), redactor)
    smallest = small.model_copy(update={"promote_to_blackboard": {}})
    yield redact_frame(whole.model_copy(update={"result": smallest, "truncated": True}), redactor)


def _is_readable(report: TaskReport, max_bytes: int) -> bool:
    """Whether the host reads this line: a result may be nested too deep for it, or have too many members."""
    line = encode(report)
    if len(line) > max_bytes:
        return False
    try:
        read_frame(decode(line.rstrip()))
    except FrameFault:
        return False
    return True
