"""A store in the host's database, SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, and_, exists, func, select

from agent_common.protocol.hub import Envelope

from ...database import (
    HostDatabase,
    hub_agents,
    hub_audit,
    hub_cursors,
    hub_dead_letters,
    hub_envelopes,
    hub_sessions,
    hub_tasks,
    hub_turns,
)
from .group_commit import GroupCommit
from .rows import (
    AgentRow,
    AuditRow,
    CursorRow,
    DeadLetterRow,
    ListedSession,
    OpenSession,
    SessionRow,
    StoredSession,
    Submission,
    TaskFilter,
    TaskRow,
    page_of,
    page_of_snapshots,
)
from .shared_writer import SharedWriter
from .sharing import Sharing
from .writing import write_each

T = TypeVar("T")
_PIECES = {"yield_per": 16}
"""Rows that may be large come a few at a time: a page that is full in bytes reads no more of them."""


class SqlStore:
    """Rows in tables. Reads have connections of their own; one thread writes."""

    def __init__(self, database: HostDatabase) -> None:
        self.envelopes_read = 0
        self._database = database
        self.sharing = Sharing(database) if database.is_shared else None
        """What it takes to share the database with other hubs; None: this is the only one."""
        self._commits = GroupCommit(
            database, write_each if self.sharing is None else SharedWriter(self.sharing.peer_id)
        )

    @property
    def commits(self) -> int:
        """Commits so far."""
        return self._commits.commits

    def submit(self, submission: Submission) -> None:
        self._commits.submit(submission)

    async def flush(self) -> None:
        await self._commits.flush()

    async def agents(self) -> list[AgentRow]:
        return await self._rows(select(*_columns(AgentRow, hub_agents)), AgentRow)

    async def open_sessions(self) -> list[OpenSession]:
        has_tail = exists().where(
            and_(
                hub_envelopes.c.session_id == hub_sessions.c.session_id,
                hub_envelopes.c.sequence > hub_sessions.c.snapshot_sequence,
            )
        )
        query = select(
            hub_sessions.c.session_id,
            hub_sessions.c.creator_id,
            hub_sessions.c.due_at,
            has_tail.label("has_tail"),
            func.length(hub_sessions.c.snapshot),
        ).where(hub_sessions.c.closed_at.is_(None))
        return await self._read(lambda connection: [OpenSession(*row) for row in connection.execute(query)])

    async def session(self, session_id: str) -> StoredSession | None:
        of_session = select(*_columns(SessionRow, hub_sessions)).where(hub_sessions.c.session_id == session_id)
        of_cursors = select(*_columns(CursorRow, hub_cursors)).where(hub_cursors.c.session_id == session_id)

        def read(connection: Connection) -> StoredSession | None:
            row = connection.execute(of_session).first()
            if row is None:
                return None
            return StoredSession(SessionRow(*row), [CursorRow(*one) for one in connection.execute(of_cursors)])

        return await self._read(read)

    async def log(self, session_id: str, after: int, limit: int) -> list[Envelope]:
        query = (
            select(hub_envelopes.c.body)
            .where(and_(hub_envelopes.c.session_id == session_id, hub_envelopes.c.sequence > after))
            .order_by(hub_envelopes.c.sequence)
            .limit(limit)
        )
        page = await self._read(
            lambda connection: page_of(connection.execute(query, execution_options=_PIECES).scalars())
        )
        self.envelopes_read += len(page)
        return page

    async def undelivered(self, agent_id: str) -> list[str]:
        query = select(hub_cursors.c.session_id).where(and_(hub_cursors.c.agent_id == agent_id, ~hub_cursors.c.done))
        return await self._read(lambda connection: list(connection.execute(query).scalars()))

    async def sessions_of(self, agent_id: str, after: str, limit: int) -> list[ListedSession]:
        return await self._rows(_of_agent(ListedSession, agent_id, after, limit), ListedSession)

    async def snapshots(self, agent_id: str | None, after: str, limit: int) -> list[SessionRow]:
        query = _of_agent(SessionRow, agent_id, after, limit)
        return await self._read(
            lambda connection: page_of_snapshots(
                SessionRow(*row) for row in connection.execute(query, execution_options=_PIECES)
            )
        )

    async def find_key(self, session_id: str, sender_id: str, key: str) -> Envelope | None:
        query = select(hub_envelopes.c.body).where(
            and_(
                hub_envelopes.c.session_id == session_id,
                hub_envelopes.c.sender_id == sender_id,
                hub_envelopes.c.idempotency_key == key,
            )
        )
        body = await self._read(lambda connection: connection.execute(query).scalar())
        return Envelope.model_validate_json(body) if body is not None else None

    async def find_reply(self, session_id: str, sender_id: str, causation_id: str, after: int) -> str | None:
        query = select(hub_envelopes.c.envelope_id).where(
            and_(
                hub_envelopes.c.session_id == session_id,
                hub_envelopes.c.sequence > after,
                hub_envelopes.c.sender_id == sender_id,
                hub_envelopes.c.causation_id == causation_id,
            )
        )
        return await self._read(lambda connection: connection.execute(query.limit(1)).scalar())

    async def outcome(self, session_id: str, agent_id: str, sequence: int) -> str | None:
        query = select(hub_turns.c.outcome).where(
            and_(
                hub_turns.c.session_id == session_id,
                hub_turns.c.agent_id == agent_id,
                hub_turns.c.sequence == sequence,
            )
        )
        return await self._read(lambda connection: connection.execute(query).scalar())

    async def dead_letters(self, after: int, limit: int) -> list[tuple[int, DeadLetterRow]]:
        return await self._numbered(hub_dead_letters, DeadLetterRow, after, limit)

    async def audit(self, after: int, limit: int) -> list[tuple[int, AuditRow]]:
        return await self._numbered(hub_audit, AuditRow, after, limit)

    async def task(self, task_id: str) -> TaskRow | None:
        query = select(*_columns(TaskRow, hub_tasks)).where(hub_tasks.c.task_id == task_id)
        return next(iter(await self._rows(query, TaskRow)), None)

    async def tasks(self, query: TaskFilter) -> list[TaskRow]:
        found = select(*_columns(TaskRow, hub_tasks)).where(hub_tasks.c.task_id > query.after)
        for name in ("owner_id", "session_id", "state"):
            if (wanted := getattr(query, name)) is not None:
                found = found.where(hub_tasks.c[name] == wanted)
        return await self._rows(found.order_by(hub_tasks.c.task_id).limit(query.limit), TaskRow)

    async def checkpoint(self, task_id: str) -> str | None:
        query = select(hub_tasks.c.checkpoint).where(hub_tasks.c.task_id == task_id)
        return await self._read(lambda connection: connection.execute(query).scalar())

    async def count_live_tasks(self, owner_id: str) -> int:
        live = and_(hub_tasks.c.owner_id == owner_id, hub_tasks.c.completed_at.is_(None))
        query = select(func.count()).select_from(hub_tasks).where(live)
        return await self._read(lambda connection: connection.execute(query).scalar() or 0)

    async def task_deadlines(self) -> list[tuple[str, int]]:
        tasks = hub_tasks.c
        query = select(tasks.task_id, tasks.expires_at)
        query = query.where(and_(tasks.completed_at.is_(None), tasks.expires_at.is_not(None)))
        return await self._read(lambda connection: [(row[0], row[1]) for row in connection.execute(query)])

    async def newest_id(self) -> str:
        query = select(func.max(hub_envelopes.c.envelope_id))
        return await self._read(lambda connection: connection.execute(query).scalar() or "")

    async def close(self) -> None:
        await self._commits.close()

    async def _read(self, read: Callable[[Connection], T]) -> T:
        return await self._database.run(read)

    async def _rows(self, query: Any, kind: Callable[..., T]) -> list[T]:
        return await self._read(lambda connection: [kind(*row) for row in connection.execute(query)])

    async def _numbered(self, table: Table, kind: Any, after: int, limit: int) -> list[tuple[int, Any]]:
        query = select(table.c.id, *_columns(kind, table)).where(table.c.id > after).order_by(table.c.id).limit(limit)
        return await self._read(lambda connection: [(row[0], kind(*row[1:])) for row in connection.execute(query)])


def _of_agent(kind: Any, agent_id: str | None, after: str, limit: int) -> Any:
    """The query for a page of the sessions of an agent; None: of all."""
    query = select(*_columns(kind, hub_sessions)).where(hub_sessions.c.session_id > after)
    if agent_id is not None:
        query = query.join(hub_cursors, hub_cursors.c.session_id == hub_sessions.c.session_id)
        query = query.where(hub_cursors.c.agent_id == agent_id)
    return query.order_by(hub_sessions.c.session_id).limit(limit)


def _columns(kind: Any, table: Table) -> list[Any]:
    fields: Sequence[str] = kind._fields
    return [table.c[name] for name in fields]
