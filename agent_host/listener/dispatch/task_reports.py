"""Record the results of tasks that agents report, and acknowledge each once it is durable."""

from __future__ import annotations

import asyncio

from agent_common.protocol.work import TaskAck, TaskReport

from ..channels.channel import AttachedAgent
from ..ledger.ledger_writer import LedgerWriter
from ..ledger.task_results import TaskResults, stored_size
from ..metrics import Metrics


class TaskReports:
    """Handles `task_result` frames. A report that comes again is acknowledged again, and changes nothing."""

    def __init__(self, *, ledger_writer: LedgerWriter, task_results: TaskResults, metrics: Metrics) -> None:
        self._ledger_writer = ledger_writer
        self._task_results = task_results
        self._metrics = metrics

    def on_report(self, session: AttachedAgent, report: TaskReport) -> None:
        """Record the report. No further frame of the agent is read until it is durable, so that an agent with many
        results fills no memory."""
        session.run_before_next_frame(self._record(session, report))

    async def _record(self, session: AttachedAgent, report: TaskReport) -> None:
        row = self._task_results.row_of_report(session.channel.workspace, report)
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def recorded() -> None:
            self._metrics.count("task_results")
            self._task_results.announce(row)
            if not durable.done():  # the connection may have ended meanwhile
                durable.set_result(None)

        session.channel.rate_limiter.spend_stored(stored_size(row))  # before the wait, which ends with the session
        self._ledger_writer.save_result(row, recorded)
        await durable
        if session.state != "gone":
            session.send(TaskAck(task_id=report.task_id, user=report.user))
