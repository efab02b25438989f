"""Save a growing text at a cost proportional to its bytes.

Rewriting a part on every flush would cost the square of its length. Instead the row holds valid JSON padded with blanks
to the next power of two, and each flush writes only the new characters in place: SQLite's incremental blob I/O touches
only the changed pages. A reader of the row always sees complete, valid JSON.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

_CLOSE = b'"}'
_SMALLEST = 1024


@dataclass(slots=True)
class StreamingText:
    """The end of one streaming part's text inside its row."""

    rowid: int
    end: int
    """Bytes used, including the closing quote and brace."""
    capacity: int

    @classmethod
    def insert(cls, connection: sqlite3.Connection, columns: dict[str, Any], data: dict[str, Any]) -> StreamingText:
        """Write the part's row for the first time; `data` must have the key `text`."""
        body = _body(data)
        capacity = _capacity(len(body))
        row = connection.execute(_UPSERT_GROWING, {**columns, "data_json": _padded(body, capacity)})
        return cls(row.fetchone()[0], len(body), capacity)

    def append(self, connection: sqlite3.Connection, text: str, data: dict[str, Any], now: int) -> None:
        """Append `text`, which `data` already includes."""
        escaped = to_json(text)[1:-1]
        if self.end + len(escaped) > self.capacity:
            self._rewrite(connection, data, now)
            return
        with connection.blobopen("chat_parts", "data_json", self.rowid) as blob:
            blob.seek(self.end - len(_CLOSE))
            blob.write(escaped + _CLOSE)
        self.end += len(escaped)

    def _rewrite(self, connection: sqlite3.Connection, data: dict[str, Any], now: int) -> None:
        body = _body(data)
        self.end = len(body)
        self.capacity = _capacity(len(body))
        connection.execute(
            "UPDATE chat_parts SET data_json = ?, updated_at = ? WHERE rowid = ?",
            (_padded(body, self.capacity), now, self.rowid),
        )


UPSERT_PART = """
    INSERT INTO chat_parts
      (id, message_id, session_id, "index", type, data_json, tool_call_id, tool_state, created_at, updated_at)
    VALUES (:id, :message_id, :session_id, :index, :type, :data_json, :tool_call_id, :tool_state, :now, :now)
    ON CONFLICT (id) DO UPDATE
      SET data_json = excluded.data_json, tool_state = excluded.tool_state, updated_at = excluded.updated_at
"""
_UPSERT_GROWING = f"{UPSERT_PART} RETURNING rowid"


def _body(data: dict[str, Any]) -> bytes:
    rest = {key: value for key, value in data.items() if key != "text"}
    return to_json({**rest, "text": data["text"]})


def _padded(body: bytes, capacity: int) -> str:
    return (body + b" " * (capacity - len(body))).decode()


def _capacity(used: int) -> int:
    return max(_SMALLEST, 1 << (2 * used - 1).bit_length())
