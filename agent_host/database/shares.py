"""Delete the rows of a table beyond the number that is kept, from those owners that have the most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, delete, func, select, true

from agent_common.net import fair_share

STEP_ROWS = 500
"""Most rows that one step deletes."""


class SharePass:
    """One pass over a table: the oldest rows of each owner that has more than its share."""

    def __init__(
        self,
        table: Table,
        owner: ColumnElement[Any],
        rows: int,
        yields: Sequence[ColumnElement[bool]] = (true(),),
        *,
        key: Column[Any] | None = None,
        age: Column[Any] | None = None,
    ) -> None:
        """`rows`: the number that is kept of the whole table; 0: all. `yields`: which rows go, the first kind first; a
        row of no kind stays. `key` names a row, and `age` orders the rows of an owner; None: `id`."""
        self._table = table
        self._owner = owner
        self._rows = rows
        self._yields = tuple(yields)
        self._key = table.c.id if key is None else key
        self._age = self._key if age is None else age
        self._excess: list[tuple[Any, int]] | None = None
        """Owners, each with the number of rows to delete."""
        self._kind = self._after = 0

    def step(self, connection: Connection) -> int | None:
        """Delete a few rows. Returns their number, or None if there is nothing more to do."""
        if self._excess is None:
            self._excess = self._find_excess(connection) if self._rows else []
        if not self._excess:
            return None
        owner, left = self._excess[-1]
        mine = (self._owner.is_(None) if owner is None else self._owner == owner) & self._yields[self._kind]
        oldest = select(self._key, self._age).where(mine & (self._age >= self._after)).order_by(self._age)
        found = connection.execute(oldest.limit(min(left, STEP_ROWS))).all()
        connection.execute(delete(self._table).where(self._key.in_([key for key, _ in found])))
        if found:
            self._after = found[-1][1]
            self._excess[-1] = owner, left - len(found)
        if left <= STEP_ROWS and len(found) == left:
            self._begin_next_owner()
        elif not found:
            self._kind = self._kind + 1
            self._after = 0
            if self._kind == len(self._yields):
                self._begin_next_owner()
        return len(found)

    def _begin_next_owner(self) -> None:
        assert self._excess  # noqa: S101  there was an owner whose turn it was
        self._excess.pop()
        self._kind = self._after = 0

    def _find_excess(self, connection: Connection) -> list[tuple[Any, int]]:
        counts = connection.execute(select(self._owner, func.count()).group_by(self._owner)).all()
        known: dict[Any, int] = {owner: int(count) for owner, count in counts}
        share = fair_share(known, self._rows)
        return [(owner, count - share) for owner, count in known.items() if count > share]
