"""Recover the turns of the previous process at start: queued ones queue again, waiting ones wait again, tasks continue
from their last step, and interrupted chats end as such (docs/explanation/design.md#a-crash-costs-at-most-one-step)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from agent_common.protocol import chunks as c
from agent_common.telemetry import logger

from ...context import notes_of
from ...errors import BrokenRecord, NotFound
from ...sessions import Message, TurnRow, history, interrupt_turn, reopen_turn, replay_parts, rows
from ..core.pending_requests import pending_requests_of
from ..core.turn_state import ExternalWork, Turn, TurnHook, TurnRequest
from ..execution.runner import waiting_end
from ..limits.budget import UsageBudget
from ..limits.outcome import ERROR_STATUSES, TurnOutcome
from ..limits.turn_limits import TurnLimits
from ..services import LoopServices
from ..subagents.parent_call import report_interrupted
from . import task_result, tasks
from .tasks import TaskService

log = logger(__name__)
MAX_LIFETIMES_WITHOUT_PROGRESS = 3
"""Processes in a row that may end without progress in a task before the task fails."""


class WorkStore(Protocol):
    """Keeps durable records of external work."""

    def load_external_work(self, connection: sqlite3.Connection, turn: TurnRow) -> ExternalWork | None:
        """Return the external work that this turn carries out; None if this store has no record of it."""
        ...

    def record_interruption(
        self, connection: sqlite3.Connection, turn: TurnRow, outcome: TurnOutcome, now: int
    ) -> None:
        """Record in this transaction that the turn was given up. Its task's record, if any, is already written."""
        ...


@dataclass(frozen=True, slots=True)
class Recovery:
    """Brings the ledger of turns in step with the fact that no turn of an earlier process is running."""

    services: LoopServices
    tasks: TaskService
    limits: TurnLimits
    """Limits of a chat turn."""
    work_stores: Sequence[WorkStore] = ()

    async def run(self) -> None:
        left = await self.services.database.read(history.unfinished)
        if not left:
            return
        running = [row for row in left if row.state == "running" or row.caller is not None]
        given_up = await self._end_or_reopen_each(running)
        kept = [row for row in left if row.message_id not in given_up]
        self.services.admission.queues.paused |= await self.services.database.read(
            lambda connection: history.paused_sessions(connection, ERROR_STATUSES)
        )
        lost = [row for row in kept if not await self._readmit(row)]
        if lost:
            await self._interrupt(lost)
        for row in left:
            if row.message_id in given_up or row in lost:
                ids = {"session_id": row.session_id, "message_id": row.message_id, "task_id": row.task_id}
                log.warning("turn ended", status="failed", code="interrupted", **ids)
        log.info("recovered", found=len(left), interrupted=len(given_up), lost=len(lost))

    async def _end_or_reopen_each(self, running: list[TurnRow]) -> set[str]:
        """Call `_end_or_reopen` for all turns, or for each alone if the rows of one cannot be read."""
        try:
            return await self._end_or_reopen(running) if running else set()
        except BrokenRecord:
            ended: set[str] = set()
            for row in running:
                with contextlib.suppress(BrokenRecord):
                    ended |= await self._end_or_reopen([row])
            return ended

    async def _end_or_reopen(self, running: list[TurnRow]) -> set[str]:
        """End or reopen the turns that were interrupted, in one transaction. Returns the message ids of ended turns."""
        now = self.services.clock.now_ms()

        def unit(connection: sqlite3.Connection) -> set[str]:
            ended: set[str] = set()
            for row in running:
                # Chats are not resumed, nor are subagents, whose caller no longer waits.
                lifetimes = MAX_LIFETIMES_WITHOUT_PROGRESS
                if row.task_id is not None:
                    done = reopen_turn(connection, row, self.services.ids, now)
                    lifetimes = 0 if done > row.done else row.lives + 1
                    rows.record_process_end(connection, row.message_id, done, lifetimes, now)
                if lifetimes >= MAX_LIFETIMES_WITHOUT_PROGRESS:
                    self._end(connection, row, now)
                    report_interrupted(connection, self.services.ids, row, now)
                    ended.add(row.message_id)
            return ended

        return await self.services.database.write(unit, durable=True)

    async def _interrupt(self, lost: list[TurnRow]) -> None:
        now = self.services.clock.now_ms()

        def unit(row: TurnRow) -> Callable[[sqlite3.Connection], None]:
            return lambda connection: self._end(connection, row, now)

        for row in lost:
            with contextlib.suppress(BrokenRecord):  # it stays unfinished until its rows are repaired
                await self.services.database.write(unit(row), durable=True)

    async def _readmit(self, row: TurnRow) -> bool:
        """Schedule the turn again. Returns False if its rows cannot be read."""
        try:
            turn = await self._restore(row)
            if turn is None:
                return False
            if row.state != "queued":
                reply = await self.services.database.read(lambda connection: history.message(connection, row.reply_id))
                _resume(turn, row, reply)
        except BrokenRecord as error:
            log.error("a turn cannot be read", session_id=row.session_id, message_id=row.message_id, error=str(error))
            return False
        self.services.admission.readmit(turn, self.services.clock.now_ms())
        return True

    async def _restore(self, row: TurnRow) -> Turn | None:
        stored = await self.services.database.read(lambda connection: history.session(connection, row.session_id))
        message = await self.services.database.read(lambda connection: history.message(connection, row.message_id))
        if stored is None or message is None:
            return None
        try:
            session = await self.services.live_sessions.find_or_create(stored.principal, stored.id)
        except NotFound:
            return None
        agent = message.metadata.get("agent", session.agent)
        manifest = self.services.live_sessions.agents.get(agent)
        chosen = message.metadata.get("model", {})
        try:
            task, work = await self._read_task_and_work(row)
        except ValidationError as error:
            log.error("a task cannot be read", task_id=row.task_id, error=str(error))
            return None
        on_start, on_end = self._record_hooks(task)
        turn = Turn(
            TurnRequest(
                session=session,
                message_id=row.message_id,
                reply_id=row.reply_id,
                parts=message.parts,
                model_chosen_by=chosen.get("chosen_by", "agent"),
                session_name=message.metadata.get("session_name", session.id),
                message_name=row.client_id or row.message_id,
                agent=agent,
                temperature=manifest.temperature if manifest is not None else None,
                task_id=row.task_id,
                interactive=row.task_id is None,
                steers=message.metadata.get("steers") is True,
                sender=message.metadata.get("sender"),
                external_work=work,
                check_answer=task_result.answer_check(task.assignment) if task is not None else None,
                on_start=on_start,
                on_end=on_end,
            ),
            budget=self._budget(agent, task, work),
            model=chosen.get("model_id", session.model),
            sent_ms=message.sent_at,
            notes=notes_of(message.metadata) or None,
        )
        if task is not None:  # its deadline includes the time in earlier processes
            turn.start.at_ms = task.record.started_at
        elif row.task_id is not None and row.state != "queued":
            turn.start.at_ms = message.created_at
        return turn

    def _record_hooks(self, task: tasks.StoredTask | None) -> tuple[TurnHook | None, TurnHook | None]:
        return (None, None) if task is None else self.tasks.record_hooks(task.principal, task.assignment.task_id)

    async def _read_task_and_work(self, row: TurnRow) -> tuple[tasks.StoredTask | None, ExternalWork | None]:
        """Return the task and the external work that a turn belongs to. Raises ValidationError."""
        if row.task_id is None:
            return None, None

        def read(connection: sqlite3.Connection) -> tuple[tasks.StoredTask | None, ExternalWork | None]:
            found = (store.load_external_work(connection, row) for store in self.work_stores)
            return tasks.assignment_of(connection, row.message_id), next(filter(None, found), None)

        return await self.services.database.read(read)

    def _budget(self, agent: str, task: tasks.StoredTask | None, work: ExternalWork | None) -> UsageBudget:
        if task is not None:
            budget = self.tasks.restored_budget(task, agent)
        else:
            budget = UsageBudget(self.limits.at_most(self.services.live_sessions.max_steps(agent)))
        if work is not None:
            budget.narrow(work.narrow_limits)
        return budget

    def _end(self, connection: sqlite3.Connection, row: TurnRow, now: int) -> None:
        outcome = TurnOutcome(**interrupt_turn(connection, row, now))
        if row.task_id is not None:
            self.tasks.record_interruption(connection, row, outcome, now)
            for keeper in self.work_stores:
                keeper.record_interruption(connection, row, outcome, now)


def _resume(turn: Turn, row: TurnRow, reply: Message | None) -> None:
    """Replay the recorded parts into the stream, and let the turn wait again if requests are still open."""
    turn.has_run_before = True
    turn.transition("resuming")
    if reply is None:
        return
    for chunk in (c.Start(messageId=reply.id, messageMetadata=turn.public_ids()), *replay_parts(reply.parts)):
        turn.stream.publish(chunk)
    turn.stream.set_resume_position()
    turn.end.reply_parts = reply.parts
    if row.state == "waiting" and (waits := pending_requests_of(row.reply_id, reply.parts)):
        turn.transition("waiting")
        turn.human_wait.requests = waits
        turn.human_wait.since_ms = row.updated_at
        turn.stream.pause(waiting_end(turn))
        turn.paused_or_ended.set()
