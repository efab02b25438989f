"""Delete sessions of the hub that are over: their logs, cursors and turns, and at last what is known of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from sqlalchemy import Connection, and_, delete, func, select

from agent_common.net import fair_share

from .hub_owners import owner_of_id
from .shares import STEP_ROWS
from .tables import hub_cursors, hub_envelopes, hub_sessions, hub_turns

_AT_ONCE = 200
"""Sessions that are looked up together."""


class SessionPass:
    """One pass over the sessions that are over, the oldest first: those that ended before a time, and then those of
    agents whose sessions have more than their share of the envelopes that are kept. Sessions that go on lose
    nothing."""

    def __init__(self, before: int, rows: int) -> None:
        """`before`: epoch milliseconds. `rows`: number of envelopes to keep; 0: all."""
        self._before = before
        self._rows = rows
        self._excess: dict[str, int] | None = None
        """Owners of the ids of creators, each with the number of envelopes to delete."""
        self._found: deque[tuple[str, int, str]] = deque()

    def step(self, connection: Connection) -> int | None:
        """Delete a few rows. Returns their number, or None if there is nothing more to do."""
        if self._excess is None:
            self._excess = self._find_excess(connection) if self._rows else {}
        found = self._next(connection, self._excess)
        if found is None:
            return None
        session_id, creator = found
        envelopes = hub_envelopes.c
        mine = envelopes.session_id == session_id
        first = select(envelopes.sequence).where(mine).order_by(envelopes.sequence).limit(STEP_ROWS)
        rows = connection.execute(first).scalars().all()
        if rows:
            connection.execute(delete(hub_envelopes).where(and_(mine, envelopes.sequence <= rows[-1])))
            self._excess[creator] = self._excess.get(creator, 0) - len(rows)
        if len(rows) < STEP_ROWS:
            for table in (hub_turns, hub_cursors, hub_sessions):
                connection.execute(delete(table).where(table.c.session_id == session_id))
            self._found.popleft()
        return len(rows) + 1

    def _find_excess(self, connection: Connection) -> dict[str, int]:
        creator = owner_of_id(hub_sessions.c.creator_id)
        joined = hub_envelopes.join(hub_sessions, hub_sessions.c.session_id == hub_envelopes.c.session_id)
        counts = connection.execute(select(creator, func.count()).select_from(joined).group_by(creator)).all()
        known = {name: int(count) for name, count in counts}
        share = fair_share(known, self._rows)
        return {name: count - share for name, count in known.items() if count > share}

    def _next(self, connection: Connection, excess: Mapping[str, int]) -> tuple[str, str] | None:
        """The session that goes next, which stays at the front until it is gone, and its creator."""
        while True:
            while self._found:
                session_id, ended, creator = self._found[0]
                if ended < self._before or excess.get(creator, 0) > 0:
                    return session_id, creator
                self._found.popleft()
            self._found.extend(self._oldest(connection, excess))
            if not self._found:
                return None

    def _oldest(self, connection: Connection, excess: Mapping[str, int]) -> list[tuple[str, int, str]]:
        ended = hub_sessions.c.closed_at
        creator = owner_of_id(hub_sessions.c.creator_id)
        over = [name for name, count in excess.items() if count > 0]
        query = select(hub_sessions.c.session_id, ended, creator).where(ended.is_not(None))
        query = query.where((ended < self._before) | creator.in_(over)).order_by(ended).limit(_AT_ONCE)
        return [(session_id, closed_at, name) for session_id, closed_at, name in connection.execute(query)]
