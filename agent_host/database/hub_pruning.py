"""Delete sessions of the hub that are over: their logs, cursors and turns, and at last what is known of them."""

from __future__ import annotations

from collections import deque

from sqlalchemy import Connection, and_, delete, func, select

from .shares import STEP_ROWS
from .tables import hub_cursors, hub_envelopes, hub_sessions, hub_turns

_AT_ONCE = 200
"""Sessions that are looked up together."""


class SessionPass:
    """One pass over the sessions that are over, the oldest first: those that ended before a time, and then as many as
    it takes to have no more envelopes than are kept. Sessions that go on lose nothing."""

    def __init__(self, before: int, rows: int) -> None:
        """`before`: epoch milliseconds. `rows`: number of envelopes to keep; 0: all."""
        self._before, self._rows = before, rows
        self._excess: int | None = None
        self._found: deque[tuple[str, int]] = deque()

    def step(self, connection: Connection) -> int | None:
        """Delete a few rows. Returns their number, or None if there is nothing more to do."""
        if self._excess is None:
            self._excess = self._count_excess(connection)
        if not self._found:
            self._found.extend(self._oldest(connection))
        if not self._found or (self._found[0][1] >= self._before and self._excess <= 0):
            return None
        session_id = self._found[0][0]
        envelopes = hub_envelopes.c
        mine = envelopes.session_id == session_id
        first = select(envelopes.sequence).where(mine).order_by(envelopes.sequence).limit(STEP_ROWS)
        found = connection.execute(first).scalars().all()
        if found:
            connection.execute(delete(hub_envelopes).where(and_(mine, envelopes.sequence <= found[-1])))
            self._excess -= len(found)
        if len(found) < STEP_ROWS:
            for table in (hub_turns, hub_cursors, hub_sessions):
                connection.execute(delete(table).where(table.c.session_id == session_id))
            self._found.popleft()
        return len(found) + 1

    def _count_excess(self, connection: Connection) -> int:
        if not self._rows:
            return 0
        return (connection.execute(select(func.count()).select_from(hub_envelopes)).scalar() or 0) - self._rows

    def _oldest(self, connection: Connection) -> list[tuple[str, int]]:
        ended = hub_sessions.c.closed_at
        query = select(hub_sessions.c.session_id, ended).where(ended.is_not(None)).order_by(ended).limit(_AT_ONCE)
        return [(session_id, closed_at) for session_id, closed_at in connection.execute(query)]
