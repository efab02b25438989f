"""A store that ends with the process. Rows are kept as the database would have them, so that both behave the same."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from itertools import islice

from agent_common.protocol.hub import Envelope

from .rows import (
    AgentRemoval,
    AgentRow,
    AuditRow,
    Conflict,
    CursorRow,
    DeadLetterRow,
    EnvelopeRow,
    ListedSession,
    OpenSession,
    Row,
    SessionRow,
    StoredSession,
    Submission,
    TaskCheckpoint,
    TaskFilter,
    TaskRow,
    TasksEnd,
    TurnRow,
    page_of,
    page_of_snapshots,
)
from .tasks import MemoryTasks


class _SessionRows:
    """What is kept of one session."""

    __slots__ = ("cursors", "envelopes", "keys", "row")

    def __init__(self) -> None:
        self.row: SessionRow | None = None
        self.envelopes: list[EnvelopeRow] = []
        self.keys: dict[tuple[str, str], int] = {}
        self.cursors: dict[str, CursorRow] = {}


class MemoryStore:
    """Everything in dictionaries; what is submitted is written at once."""

    def __init__(self) -> None:
        self.envelopes_read = 0
        self._agents: dict[str, AgentRow] = {}
        self._sessions: dict[str, _SessionRows] = {}
        self._session_ids: list[str] = []
        self._turns: dict[tuple[str, str, int], str] = {}
        self._dead_letters: list[DeadLetterRow] = []
        self._audit: list[AuditRow] = []
        self._tasks = MemoryTasks()
        self._newest_id = ""

    def submit(self, submission: Submission) -> None:
        error = Conflict() if any(self._is_taken(row) for row in submission.rows) else None
        if error is None:
            for row in submission.rows:
                self._write(row)
        if submission.on_written is not None:
            submission.on_written(error)

    def _is_taken(self, row: Row) -> bool:
        if type(row) is TaskRow:
            return self._tasks.is_taken(row) or (row.completed_at is None and self._is_over(row.session_id))
        if type(row) is not EnvelopeRow or (rows := self._sessions.get(row.session_id)) is None:
            return False
        key = row.idempotency_key
        return row.sequence <= len(rows.envelopes) or (key is not None and (row.sender_id, key) in rows.keys)

    def _write(self, row: Row) -> None:
        if type(row) is EnvelopeRow:
            rows = self._of(row.session_id)
            rows.envelopes.append(row)
            if row.idempotency_key is not None:
                rows.keys[row.sender_id, row.idempotency_key] = row.sequence - 1
            self._newest_id = row.envelope_id
        elif type(row) is CursorRow:
            self._of(row.session_id).cursors[row.agent_id] = row
        elif type(row) is SessionRow:
            self._of(row.session_id).row = row
        else:
            self._write_rare(row)

    def _write_rare(self, row: Row) -> None:
        match row:
            case TurnRow():
                self._turns[row.session_id, row.agent_id, row.sequence] = row.outcome
            case AuditRow():
                self._audit.append(row)
            case DeadLetterRow():
                self._dead_letters.append(row)
            case TaskRow() | TaskCheckpoint():
                self._tasks.write(row)
            case TasksEnd():
                self._audit += self._tasks.end(row)
            case AgentRow():
                self._agents[row.agent_id] = row
            case AgentRemoval():
                self._agents.pop(row.agent_id, None)
            case _:
                raise TypeError(f"no such row: {row}")

    def _is_over(self, session_id: str | None) -> bool:
        rows = self._sessions.get(session_id or "")
        return rows is not None and rows.row is not None and rows.row.closed_at is not None

    def _of(self, session_id: str) -> _SessionRows:
        rows = self._sessions.get(session_id)
        if rows is None:
            rows = self._sessions[session_id] = _SessionRows()
            insort(self._session_ids, session_id)
        return rows

    async def flush(self) -> None:
        return

    async def agents(self) -> list[AgentRow]:
        return list(self._agents.values())

    async def open_sessions(self) -> list[OpenSession]:
        return [
            OpenSession(
                name, row.creator_id, row.due_at, len(rows.envelopes) > row.snapshot_sequence, len(row.snapshot)
            )
            for name, rows in self._sessions.items()
            if (row := rows.row) is not None and row.closed_at is None
        ]

    async def session(self, session_id: str) -> StoredSession | None:
        rows = self._sessions.get(session_id)
        return StoredSession(rows.row, list(rows.cursors.values())) if rows is not None and rows.row else None

    async def log(self, session_id: str, after: int, limit: int) -> list[Envelope]:
        rows = self._sessions.get(session_id)
        found = rows.envelopes[after : after + limit] if rows is not None else []
        page = page_of(row.body for row in found)
        self.envelopes_read += len(page)
        return page

    async def undelivered(self, agent_id: str) -> list[str]:
        found = ((name, rows.cursors.get(agent_id)) for name, rows in self._sessions.items())
        return [name for name, cursor in found if cursor is not None and not cursor.done]

    async def sessions_of(self, agent_id: str, after: str, limit: int) -> list[ListedSession]:
        found = islice(self._of_agent(agent_id, after), limit)
        return [ListedSession(row.session_id, row.type, row.state) for row in found]

    async def snapshots(self, agent_id: str | None, after: str, limit: int) -> list[SessionRow]:
        return page_of_snapshots(islice(self._of_agent(agent_id, after), limit))

    def _of_agent(self, agent_id: str | None, after: str) -> Iterator[SessionRow]:
        for name in self._session_ids[bisect_right(self._session_ids, after) :]:
            rows = self._sessions[name]
            if rows.row is not None and (agent_id is None or agent_id in rows.cursors):
                yield rows.row

    async def find_key(self, session_id: str, sender_id: str, key: str) -> Envelope | None:
        rows = self._sessions.get(session_id)
        at = rows.keys.get((sender_id, key)) if rows is not None else None
        return Envelope.model_validate_json(rows.envelopes[at].body) if rows is not None and at is not None else None

    async def find_reply(self, session_id: str, sender_id: str, causation_id: str, after: int) -> str | None:
        rows = self._sessions.get(session_id)
        later = rows.envelopes[after:] if rows is not None else []
        matching = (row for row in later if row.causation_id == causation_id and row.sender_id == sender_id)
        return next((row.envelope_id for row in matching), None)

    async def outcome(self, session_id: str, agent_id: str, sequence: int) -> str | None:
        return self._turns.get((session_id, agent_id, sequence))

    async def dead_letters(self, after: int, limit: int) -> list[tuple[int, DeadLetterRow]]:
        return list(enumerate(self._dead_letters, 1))[after : after + limit]

    async def audit(self, after: int, limit: int) -> list[tuple[int, AuditRow]]:
        return [(after + at, row) for at, row in enumerate(self._audit[after : after + limit], 1)]

    async def task(self, task_id: str) -> TaskRow | None:
        return self._tasks.rows.get(task_id)

    async def tasks(self, query: TaskFilter) -> list[TaskRow]:
        return self._tasks.list(query)

    async def checkpoint(self, task_id: str) -> str | None:
        return self._tasks.checkpoints.get(task_id)

    async def count_live_tasks(self, owner_id: str) -> int:
        return sum(row.owner_id == owner_id for row in self._tasks.live())

    async def task_deadlines(self) -> list[tuple[str, int]]:
        return [(row.task_id, row.expires_at) for row in self._tasks.live() if row.expires_at is not None]

    async def newest_id(self) -> str:
        return self._newest_id

    async def close(self) -> None:
        return
