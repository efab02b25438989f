"""Tasks: assignments with a result contract, each in its own session and stored as long as that."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agent_common.protocol import TaskAccepted, TaskAssignment, TaskRecord, TokenBudget, Usage

from ...agents import DEFAULT
from ...errors import Conflict, NotFound
from ...sessions import Message, NewTurn, history, rows
from ...store import Migration, Unit
from ..core.turn_state import ExternalWork, Turn, TurnHook, TurnRequest
from ..limits.budget import UsageBudget
from ..limits.outcome import TurnOutcome
from ..limits.turn_limits import TurnLimits
from ..services import LoopServices
from .result_urls import TaskReports, check_result_url
from .task_result import answer_check, finished_record, require_usable_schema, task_message

_TABLE = """
CREATE TABLE tasks (
  principal TEXT NOT NULL,
  task_id TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  assignment_json TEXT NOT NULL,
  message_id TEXT NOT NULL UNIQUE,
  record_json TEXT NOT NULL,
  finished_at INTEGER,
  PRIMARY KEY (principal, task_id)
) WITHOUT ROWID
"""


def _create(connection: sqlite3.Connection) -> None:
    connection.execute(_TABLE)
    connection.execute("CREATE INDEX tasks_finished ON tasks (principal, finished_at)")


_EXPLICIT_COST_KEY = "cost_limit_is_explicit"
MIGRATION = Migration(2, "tasks", _create)


@dataclass(frozen=True, slots=True)
class TaskAdmission:
    """The response to an assignment."""

    accepted: TaskAccepted | None
    """None if the assignment was known already."""
    record: TaskRecord
    turn: Turn | None


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as stored on disk."""

    principal: str
    assignment: TaskAssignment
    record: TaskRecord


class _DuplicateTask(Exception):
    """Raised if the task id is already in use, possibly by a concurrent request."""


class TaskService:
    """Admits assignments and reports on them."""

    def __init__(
        self,
        services: LoopServices,
        limits: Callable[[TaskAssignment], TurnLimits],
        reports: TaskReports | None = None,
    ) -> None:
        """`reports`: reports the ends of tasks to a host; None if there is none."""
        self._services = services
        self._limits = limits
        self._reports = reports

    async def assign(
        self,
        assignment: TaskAssignment,
        principal: str,
        external_work: ExternalWork | None = None,
    ) -> TaskAdmission:
        """Admit the task, or return the known one.

        Raises Conflict for different content under the same id, InvalidRequest for a schema that results cannot be
        checked against, for a `result_url` that cannot be called and for a cost limit on a model without a price
        (MeshUnavailable if that is unknown), TooLarge for a task that does not fit its model's window, and Busy.
        """
        if (known := await self._find_existing(assignment, principal)) is not None:
            return known
        check_result_url(assignment, self._reports)
        await require_usable_schema(assignment)
        turn = self._turn(assignment, principal, external_work)
        try:
            await self._services.require_price(turn)
            await self._services.require_fit(turn)
            await self._services.admission.admit(turn, lambda admitted: self._unit(assignment, admitted))
        except _DuplicateTask:
            known = await self._find_existing(assignment, principal)
            assert known is not None  # noqa: S101  its row has just been seen
            return known
        finally:
            self._services.live_sessions.discard_unstored(turn.session)
        record = await self.record(assignment.task_id, principal)
        accepted = TaskAccepted(
            task_id=record.task_id,
            session_id=turn.session.id,
            status=record.status,
            queued_behind=self._services.admission.queues.count_ahead(turn),
        )
        return TaskAdmission(accepted, record, turn)

    async def record(self, task_id: str, principal: str) -> TaskRecord:
        """Return the current record of the task. Raises NotFound."""
        row = await self._services.database.read(lambda connection: _row(connection, principal, task_id))
        if row is None:
            raise NotFound(f"there is no task {task_id}", code="unknown_task")
        return self._with_live_usage(row)

    async def latest(self, principal: str) -> TaskRecord | None:
        """Return the record of the task that finished last; None if there is none."""
        row = await self._services.database.read(lambda connection: _latest(connection, principal))
        return self._with_live_usage(row) if row else None

    async def read(
        self, select: Callable[[sqlite3.Connection], tuple[list[sqlite3.Row], bool]]
    ) -> tuple[list[tuple[sqlite3.Row, TaskRecord]], bool]:
        """Return a page of rows of the table of tasks, each with its current record, and whether there are more."""
        rows, more = await self._services.database.read(select)
        return [(row, self._with_live_usage(row)) for row in rows], more

    async def turn(self, task_id: str, principal: str) -> Turn | None:
        """Return the task's turn; None if it has ended. Raises NotFound for an unknown task."""
        row = await self._services.database.read(lambda connection: _row(connection, principal, task_id))
        if row is None:
            raise NotFound(f"there is no task {task_id}", code="unknown_task")
        return self._services.admission.queues.turn(row["message_id"])

    async def reply(self, task_id: str, principal: str) -> Message | None:
        """Return the recorded reply of a task; None if there is none yet. Raises NotFound for an unknown task."""

        def unit(connection: sqlite3.Connection) -> tuple[bool, Message | None]:
            row = _row(connection, principal, task_id)
            turn = history.turn(connection, row["message_id"]) if row else None
            return row is not None, history.message(connection, turn.reply_id) if turn else None

        found, reply = await self._services.database.read(unit)
        if not found:
            raise NotFound(f"there is no task {task_id}", code="unknown_task")
        return reply

    async def cancel(self, task_id: str, principal: str) -> TaskRecord:
        """Cancel a task that is queued or running; a finished one stays as it is. Raises NotFound."""
        turn = await self.turn(task_id, principal)
        if turn is not None:
            await self._services.admission.stop(turn)
        return await self.record(task_id, principal)

    def restored_budget(self, stored: StoredTask, agent: str) -> UsageBudget:
        """Return the budget of a task that was admitted by an earlier process."""
        most = self._services.live_sessions.max_steps(agent)
        return UsageBudget(self._limits(stored.assignment).at_most(most))

    def record_hooks(self, principal: str, task_id: str) -> tuple[TurnHook, TurnHook]:
        """Return the hooks that update a task's record at the start and at the end of its turn."""
        key = (principal, task_id)

        def on_end(connection: sqlite3.Connection, turn: Turn, now: int) -> None:
            if _record_end(connection, key, turn, now):
                self._report(connection, task_id, turn.message_id)

        return lambda connection, _, now: _record_start(connection, key, now), on_end

    def record_interruption(
        self, connection: sqlite3.Connection, turn: history.TurnRow, outcome: TurnOutcome, now: int
    ) -> None:
        """End the record of a task that recovery gives up, with a partial result if there is one."""
        row = connection.execute("SELECT * FROM tasks WHERE message_id = ?", (turn.message_id,)).fetchone()
        if row is None:
            return
        record = TaskRecord.model_validate_json(row["record_json"])
        reply = history.message(connection, turn.reply_id)
        usage = Usage.model_validate(reply.metadata.get("usage", {})) if reply else record.usage
        done = finished_record(record, outcome, reply.parts if reply else [], usage)
        known = max(0, (history.last_part_created_at(connection, turn.reply_id) or 0) - (record.started_at or now))
        changes = {"finished_at": now, "duration_ms": known}
        _store(connection, (row["principal"], record.task_id), done.model_copy(update=changes), now)
        self._report(connection, record.task_id, turn.message_id)

    def _report(self, connection: sqlite3.Connection, task_id: str, message_id: str) -> None:
        if self._reports is not None:
            self._reports.record_end(connection, task_id, message_id)

    async def _find_existing(self, assignment: TaskAssignment, principal: str) -> TaskAdmission | None:
        row = await self._services.database.read(lambda connection: _row(connection, principal, assignment.task_id))
        if row is None:
            return None
        if row["fingerprint"] != assignment.fingerprint():
            raise Conflict(f"task {assignment.task_id} exists with other content", code="task_conflict")
        return TaskAdmission(None, self._with_live_usage(row), self._services.admission.queues.turn(row["message_id"]))

    def _turn(self, assignment: TaskAssignment, principal: str, external_work: ExternalWork | None) -> Turn:
        agent = self._services.live_sessions.agents.require_selectable(assignment.agent or DEFAULT)
        session = self._services.live_sessions.create(principal, agent=agent.name)
        message_id = self._services.ids.new("msg")
        limits = self._limits(assignment).at_most(agent.max_steps)
        on_start, on_end = self.record_hooks(principal, assignment.task_id)
        return Turn(
            TurnRequest(
                session=session,
                message_id=message_id,
                reply_id=self._services.ids.new("msg"),
                parts=[{"type": "text", "text": task_message(assignment)}],
                agent=agent.name,
                temperature=agent.temperature,
                session_name=session.id,
                message_name=message_id,
                task_id=assignment.task_id,
                external_work=external_work,
                check_answer=answer_check(assignment),
                on_start=on_start,
                on_end=on_end,
            ),
            budget=UsageBudget(external_work.narrow_limits(limits) if external_work is not None else limits),
            model=session.model,
        )

    def _unit(self, assignment: TaskAssignment, turn: Turn) -> Unit[None]:
        now = turn.sent_ms = turn.session.next_timestamp(self._services.clock.now_ms())
        session = turn.session
        queued = turn.admission.queued
        task_id = assignment.task_id
        record = TaskRecord(
            task_id=task_id,
            status="queued" if queued else "running",
            session_id=session.id,
            created_at=now,
            started_at=None if queued else now,
            attempts=0 if queued else 1,
        )
        parts = tuple((self._services.ids.new("prt"), part) for part in turn.request.parts)
        source = turn.request.external_work.source if turn.request.external_work is not None else "api"
        trigger = {"source": source, "fired_at": now, "delivery_id": task_id}
        row = NewTurn(
            turn.message_id,
            session.id,
            turn.request.reply_id,
            parts,
            assignment.fingerprint(),
            queued,
            task_id=task_id,
            metadata={"trigger": trigger, "agent": turn.request.agent},
        )
        values = (session.principal, task_id, row.fingerprint, _assignment_json(assignment), turn.message_id)

        def unit(connection: sqlite3.Connection) -> None:
            if _row(connection, session.principal, task_id) is not None:
                raise _DuplicateTask
            rows.insert_session(connection, session.new_row(str(self._services.home.workspace)), now)
            rows.insert_turn(connection, row, now)
            connection.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, NULL)", (*values, record.model_dump_json()))
            if turn.request.external_work is not None:
                turn.request.external_work.recorder.record_admission(connection, turn, now)

        return unit

    def _with_live_usage(self, row: sqlite3.Row) -> TaskRecord:
        """Return the stored record, updated with the live usage of a running task."""
        record = TaskRecord.model_validate_json(row["record_json"])
        turn = self._services.admission.queues.turn(row["message_id"])
        if turn is None or record.finished_at is not None or turn.start.monotonic is None:
            return record
        running = round((self._services.clock.monotonic() - turn.start.monotonic) * 1000)
        live = {"duration_ms": running, "tokens_used": turn.budget.tokens, "usage": turn.budget.usage}
        return record.model_copy(update=live)


def record_of(connection: sqlite3.Connection, message_id: str) -> TaskRecord | None:
    """Return the record of a turn's task as of this transaction; None if the turn has none."""
    row = connection.execute("SELECT record_json FROM tasks WHERE message_id = ?", (message_id,)).fetchone()
    return TaskRecord.model_validate_json(row[0]) if row is not None else None


def delete_tasks(connection: sqlite3.Connection, message_ids: Sequence[str]) -> None:
    """Delete the tasks of deleted messages."""
    connection.executemany("DELETE FROM tasks WHERE message_id = ?", [(message_id,) for message_id in message_ids])


def assignment_of(connection: sqlite3.Connection, message_id: str) -> StoredTask | None:
    """Return the task of a turn; None if it has none. Raises ValidationError if it cannot be read."""
    row = connection.execute("SELECT * FROM tasks WHERE message_id = ?", (message_id,)).fetchone()
    if row is None:
        return None
    # A host may choose any id for its work, so the stored id may not satisfy the rules for posted tasks.
    known = _parse_assignment_json(row["assignment_json"])
    assignment = TaskAssignment.model_validate_json(json.dumps({**known, "task_id": "task"}))
    assignment = assignment.model_copy(update={"task_id": row["task_id"]})
    return StoredTask(row["principal"], assignment, TaskRecord.model_validate_json(row["record_json"]))


def _assignment_json(assignment: TaskAssignment) -> str:
    """Return the assignment as JSON with its defaults, marked if its cost limit was set explicitly."""
    budget = assignment.token_budget
    explicit = budget is not None and "max_cost_usd" in budget.model_fields_set
    return json.dumps({**assignment.model_dump(mode="json"), **({_EXPLICIT_COST_KEY: True} if explicit else {})})


def _parse_assignment_json(text: str) -> dict[str, Any]:
    """Parse a stored assignment, dropping a cost limit that is only the default. Rows from before the mark was
    introduced have an explicit limit if it differs from the default."""
    known: dict[str, Any] = json.loads(text)  # noqa: TID251  our own row
    explicit = known.pop(_EXPLICIT_COST_KEY, False)
    budget = known.get("token_budget")
    if budget and not explicit and budget.get("max_cost_usd") == TokenBudget().max_cost_usd:
        del budget["max_cost_usd"]
    return known


def _row(connection: sqlite3.Connection, principal: str, task_id: str) -> sqlite3.Row | None:
    return connection.execute(
        "SELECT * FROM tasks WHERE principal = ? AND task_id = ?", (principal, task_id)
    ).fetchone()


def _latest(connection: sqlite3.Connection, principal: str) -> sqlite3.Row | None:
    return connection.execute(
        "SELECT * FROM tasks WHERE principal = ? AND finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT 1",
        (principal,),
    ).fetchone()


def _record_start(connection: sqlite3.Connection, key: tuple[str, str], now: int) -> None:
    row = _row(connection, *key)
    if row is not None:
        record: dict[str, Any] = json.loads(row["record_json"])  # noqa: TID251  our own row
        record |= {"status": "running", "started_at": now, "attempts": record["attempts"] + 1}
        _store(connection, key, TaskRecord.model_validate(record), None)


def _record_end(connection: sqlite3.Connection, key: tuple[str, str], turn: Turn, now: int) -> bool:
    """Store how the task ended. Returns False if it has no record, or has not ended."""
    row = _row(connection, *key)
    if row is None or turn.end.outcome is None:
        return False
    record = TaskRecord.model_validate_json(row["record_json"])
    done = finished_record(record, turn.end.outcome, turn.end.reply_parts, turn.budget.usage)
    changes = {
        "finished_at": now,
        "duration_ms": turn.end.duration_ms,
        "attempts": record.attempts + turn.budget.retries,
        "tokens_used": turn.budget.tokens,
    }
    _store(connection, key, done.model_copy(update=changes), now)
    return True


def _store(connection: sqlite3.Connection, key: tuple[str, str], record: TaskRecord, finished: int | None) -> None:
    """Store the record. `finished_at` orders results, so it only grows, even if the clock has gone back."""
    connection.execute(
        "UPDATE tasks SET record_json = :record, finished_at = CASE WHEN :finished IS NOT NULL THEN max(:finished,"
        " 1 + coalesce((SELECT max(finished_at) FROM tasks WHERE principal = :principal), 0)) END"
        " WHERE principal = :principal AND task_id = :task",
        {"record": record.model_dump_json(), "finished": finished, "principal": key[0], "task": key[1]},
    )
