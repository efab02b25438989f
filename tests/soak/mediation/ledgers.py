"""The ledgers of both ends as an outsider reads them, while their owners live, die and rise."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Ledger:
    """Read-only looks into a database that may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Raises sqlite3.OperationalError while it cannot be read."""
        if self._connection is None:
            self._connection = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, timeout=0.0)
            self._connection.row_factory = sqlite3.Row
        return self._connection.execute(query, values).fetchall()

    def peek(self, query: str, *values: Any) -> Any:
        """The first value; None while there is none or nobody can say."""
        try:
            rows = self.rows(query, values)
        except sqlite3.OperationalError:
            return None
        return rows[0][0] if rows else None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


HOST_STATE = "SELECT status FROM work WHERE request_id = ?"
GUEST_STATE = (
    "SELECT CASE WHEN acked_at IS NOT NULL THEN 'acked' WHEN result_json IS NOT NULL THEN 'ended' ELSE 'entered' END"
    " FROM work WHERE request_id = ?"
)
