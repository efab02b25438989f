"""Writing to a database that other hubs write, too: by compare-and-set for logs, by fencing for deliveries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic_core import from_json, to_json  # noqa: TID251  our own rows
from sqlalchemy import Connection, delete, insert, null, select, tuple_, update
from sqlalchemy.dialects import postgresql

from ...database import hub_changes, hub_cursors, hub_envelopes, hub_leases, hub_sessions
from .changes import DATABASE_MS, Change
from .rows import (
    AgentRemoval,
    AgentRow,
    Conflict,
    CursorRow,
    EnvelopeRow,
    Fenced,
    LeaseEnd,
    Row,
    SessionRow,
    Violation,
)
from .shared_lock import lock_hubs, ring
from .writing import latest_of, write_rows


class SharedWriter:
    """Writes the submissions of one hub."""

    def __init__(self, peer_id: str) -> None:
        self._peer_id = peer_id

    def __call__(self, connection: Connection, batch: Sequence[Sequence[Row]]) -> list[Exception | None]:
        """Write submissions, without those whose session has got other envelopes. A row of a lease that has passed on
        is left out."""
        lock_hubs(connection)
        taken = _taken(connection, batch)
        fired = _fired(connection, batch)
        errors: list[Exception | None] = []
        rows: list[Row] = []
        for some in batch:
            error = Conflict() if any(_conflicts(row, taken, fired) for row in some) else None
            errors.append(error)
            if error is None:
                rows += some
                for row in some:
                    if isinstance(row, Violation):
                        known = fired.get(row.session_id, set())
                        fired[row.session_id] = {row.key, *(known & row.current)}
        self._write(connection, rows, fired)
        return errors

    def _write(self, connection: Connection, rows: Sequence[Row], fired: dict[str, set[str]]) -> None:
        fences = _fences(connection, rows)
        plain: list[Row] = []
        for row in rows:
            if isinstance(row, Fenced):
                if fences.get(row.row.agent_id) == row.fence:
                    plain.append(row.row)
            elif not isinstance(row, Violation | LeaseEnd | CursorRow | SessionRow):
                plain.append(row)
        _write_sessions(connection, rows)
        write_rows(connection, plain)
        for session_id in {row.session_id for row in rows if isinstance(row, Violation)}:
            text = to_json(sorted(fired[session_id])).decode()
            connection.execute(update(hub_sessions).where(hub_sessions.c.session_id == session_id).values(fired=text))
        self._end_leases(connection, rows)
        record_changes(connection, self._peer_id, _changes_of(rows))

    def _end_leases(self, connection: Connection, rows: Sequence[Row]) -> None:
        lease = hub_leases.c
        for row in rows:
            if isinstance(row, LeaseEnd):
                mine = (lease.agent_id == row.agent_id) & (lease.fence == row.fence) & (lease.peer_id == self._peer_id)
                connection.execute(update(hub_leases).where(mine).values(peer_id=null()))
            elif isinstance(row, AgentRemoval):
                connection.execute(delete(hub_leases).where(lease.agent_id == row.agent_id))


def record_changes(connection: Connection, peer_id: str, changes: Iterable[Change]) -> None:
    """Tell the other hubs, once this transaction is committed."""
    values = [{"peer_id": peer_id, **change._asdict()} for change in changes]
    if values:
        connection.execute(insert(hub_changes).values(at=DATABASE_MS), values)
        ring(connection, peer_id)


def _conflicts(row: Row, taken: set[str], fired: dict[str, set[str]]) -> bool:
    if isinstance(row, Violation):
        return row.key in fired.get(row.session_id, ())
    return isinstance(row, EnvelopeRow) and row.session_id in taken


def _taken(connection: Connection, batch: Sequence[Sequence[Row]]) -> set[str]:
    """Return the sessions whose log already has an envelope with the number of the first new one. Logs have no gaps, so
    the numbers after it are free in all others."""
    first: dict[str, int] = {}
    for rows in batch:
        for row in rows:
            if isinstance(row, EnvelopeRow):
                first.setdefault(row.session_id, row.sequence)
    if not first:
        return set()
    number = tuple_(hub_envelopes.c.session_id, hub_envelopes.c.sequence)
    query = select(hub_envelopes.c.session_id).where(number.in_(list(first.items())))
    return set(connection.execute(query).scalars())


def _fired(connection: Connection, batch: Sequence[Sequence[Row]]) -> dict[str, set[str]]:
    """Return the violated expectations of the sessions for which the batch has another one."""
    ids = {row.session_id for rows in batch for row in rows if isinstance(row, Violation)}
    if not ids:
        return {}
    query = select(hub_sessions.c.session_id, hub_sessions.c.fired).where(hub_sessions.c.session_id.in_(ids))
    return {session_id: set(from_json(text)) for session_id, text in connection.execute(query)}


def _fences(connection: Connection, rows: Sequence[Row]) -> dict[str, int]:
    """Return the present fencing number of each lease."""
    ids = {row.row.agent_id for row in rows if isinstance(row, Fenced)}
    if not ids:
        return {}
    query = select(hub_leases.c.agent_id, hub_leases.c.fence).where(hub_leases.c.agent_id.in_(ids))
    return {row.agent_id: row.fence for row in connection.execute(query)}


def _write_sessions(connection: Connection, rows: Sequence[Row]) -> None:
    """Write snapshots unless there are newer ones, and the cursors of new sessions."""
    sessions = [row for row in rows if isinstance(row, SessionRow)]
    if sessions:
        new = postgresql.insert(hub_sessions)
        kept = ("session_id", "fired")  # the latter is changed by violations alone
        changed = {one.name: new.excluded[one.name] for one in hub_sessions.c if one.name not in kept}
        is_newer = hub_sessions.c.snapshot_sequence < new.excluded.snapshot_sequence
        statement = new.on_conflict_do_update(index_elements=["session_id"], set_=changed, where=is_newer)
        connection.execute(statement, latest_of(hub_sessions, sessions))
    cursors = [row for row in rows if isinstance(row, CursorRow)]
    if cursors:
        connection.execute(postgresql.insert(hub_cursors).on_conflict_do_nothing(), [row._asdict() for row in cursors])


def _changes_of(rows: Sequence[Row]) -> Iterable[Change]:
    """What other hubs must know, agents first: sessions are of agents."""
    agents: dict[str, Change] = {}
    others: list[Change] = []
    sessions: dict[str, Change] = {}
    for row in rows:
        match row:
            case AgentRow() | AgentRemoval():
                agents[row.agent_id] = Change("agent", row.agent_id)
            case LeaseEnd():
                others.append(Change("lease", row.agent_id, row.fence))
            case Violation():
                others.append(Change("fired", row.session_id, 0, row.key))
            case EnvelopeRow():
                sessions[row.session_id] = Change("session", row.session_id, row.sequence)
            case _:
                pass
    return [*agents.values(), *others, *sessions.values()]
