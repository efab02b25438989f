"""Deletion of old sessions: which ones, and in what order. Each function is a part of a unit of work.

A session is first marked, which hides it at once. Then its messages are deleted, a few at a time, and its own row last.
After a crash a marked session stays hidden, and the next process deletes the rest of it. So it does with a session that
was being written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from agent_common.net import fair_share

from .store import rows
from .store.rows import dump

DAY_MS = 86_400_000
ID_DAYS = 7
"""Minimum age at which ids of messages and tasks are deleted, because a host may send work again for a week."""
MAX_DOWNTIME_MS = 7 * DAY_MS
"""Maximum milliseconds that one downtime adds to the age of sessions."""
_AT_ONCE = 20
"""Parts deleted by one statement; a part may have megabytes."""
_OLD = """
SELECT s.id, s.updated_at FROM chat_sessions s
WHERE s.updated_at < :before AND json_valid(s.metadata_json)
  AND (:principal IS NULL OR json_extract(s.metadata_json, '$.principal') = :principal)
  AND s.id NOT IN (SELECT value FROM json_each(:needed))
  AND NOT EXISTS (SELECT 1 FROM session_retention r WHERE r.session_id = s.id
    AND (r.marked_at IS NOT NULL OR r.imported_at >= :before))
  AND NOT EXISTS (SELECT 1 FROM session_aliases a WHERE a.session_id = s.id AND a.alias = :main)
  AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session_id = s.id AND t.state != 'ended')
  AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.message_id = s.parent_message_id AND t.state != 'ended')
  AND NOT EXISTS (SELECT 1 FROM chat_sessions c WHERE c.parent_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM chat_messages m WHERE m.session_id = s.id AND m.created_at >= :before)
  AND s.id IS NOT (SELECT session_id FROM chat_messages ORDER BY rowid DESC LIMIT 1)
"""
"""The session of the last message is kept, because SQLite would reuse its row number, and memory's index, which reads
messages in the order of row numbers, would skip the new message."""


@dataclass(frozen=True, slots=True)
class OldSessions:
    """The criteria for old sessions."""

    before: int
    """Epoch milliseconds of the last activity; sessions that were active at that time or later stay."""
    needed: Collection[str]
    """Ids of sessions that are kept for other reasons."""
    main: str
    """The alias of the default sessions, which are always kept."""
    principal: str | None = None
    """Whose sessions; None: everybody's."""

    def sql_parameters(self) -> dict[str, object]:
        needed = dump(list(self.needed))
        return {"before": self.before, "needed": needed, "main": self.main, "principal": self.principal}


def find_old(connection: sqlite3.Connection, old: OldSessions, limit: int) -> list[str]:
    """Return the ids of at most `limit` old sessions, the one that was idle for longest first."""
    found = connection.execute(f"{_OLD} ORDER BY s.updated_at LIMIT :most", {**old.sql_parameters(), "most": limit})
    return [row["id"] for row in found]


def excess_sessions(connection: sqlite3.Connection, most_parts: int, old: OldSessions) -> list[OldSessions]:
    """Return which of the old sessions must be deleted to leave at most `most_parts` parts: those of principals that
    have more than their fair share, so that nobody's sessions give way to the parts of another."""
    total: int = connection.execute("SELECT count(*) FROM chat_parts").fetchone()[0]
    if total <= most_parts:
        return []
    counts: dict[bytes | None, int] = dict(connection.execute(_PARTS_BY_PRINCIPAL).fetchall())
    share = fair_share(counts, most_parts)
    over = [(_name(principal), count - share) for principal, count in counts.items() if count > share]
    return [_oldest(connection, replace(old, principal=name), excess) for name, excess in over if name is not None]


def _oldest(connection: sqlite3.Connection, old: OldSessions, excess: int) -> OldSessions:
    """Return those of the principal's old sessions that hold the `excess` parts, the idle ones first."""
    for row in connection.execute(f"{_OLD} ORDER BY s.updated_at", old.sql_parameters()):
        count = connection.execute("SELECT count(*) FROM chat_parts WHERE session_id = ?", (row["id"],))
        excess -= count.fetchone()[0]
        if excess <= 0:
            return replace(old, before=row["updated_at"] + 1)
    return old


def _name(principal: bytes | None) -> str | None:
    """Return a stored name; None for one that a bad disk or another program has made unreadable."""
    try:
        return principal.decode() if principal is not None else None
    except UnicodeDecodeError:
        return None


def mark(connection: sqlite3.Connection, session_ids: Sequence[str], old: OldSessions, now: int) -> list[str]:
    """Mark those of the sessions that are still old, which hides them. Returns their ids."""
    query = f"{_OLD} AND s.id IN (SELECT value FROM json_each(:asked))"  # noqa: S608  it is a constant
    found = connection.execute(query, {**old.sql_parameters(), "asked": dump(list(session_ids))}).fetchall()
    for row in found:
        rows.archive(connection, row["id"], now)
        connection.execute(
            "INSERT INTO session_retention (session_id, marked_at) VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET marked_at = excluded.marked_at",
            (row["id"], now),
        )
    return [row["id"] for row in found]


def marked_sessions(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of sessions that are being deleted."""
    return [row[0] for row in connection.execute(_MARKED)]


def is_kept(connection: sqlite3.Connection, session_id: str) -> bool:
    """Return whether a session is stored and not being deleted."""
    return connection.execute(_KEPT, (session_id,)).fetchone() is not None


def next_messages(connection: sqlite3.Connection, limit: int) -> list[str]:
    """Return the ids of some messages of sessions that are being deleted."""
    query = f"SELECT id FROM chat_messages WHERE session_id IN ({_MARKED}) LIMIT ?"  # noqa: S608  it is a constant
    return [row[0] for row in connection.execute(query, (limit,))]


def delete_messages(
    connection: sqlite3.Connection, message_ids: Sequence[str], out_of_time: Callable[[], bool]
) -> list[str]:
    """Delete messages with their parts and turns until `out_of_time`. Returns the ids of messages deleted entirely."""
    gone: list[str] = []
    for message_id in message_ids:
        while connection.execute(_DELETE_PARTS, (message_id,)).rowcount == _AT_ONCE:
            if out_of_time():
                return gone
        connection.execute("DELETE FROM chat_messages WHERE id = ?", (message_id,))
        gone.append(message_id)
        if out_of_time():
            break
    return gone


def unused_prompts(connection: sqlite3.Connection) -> list[str]:
    """Return the digests of prompts that only sessions under deletion use."""
    return [row[0] for row in connection.execute(_UNUSED)]


def delete_sessions(connection: sqlite3.Connection, prompts: Sequence[str]) -> int:
    """Delete the marked sessions without messages, and those of the prompts that no other session uses. Returns the
    number of sessions. An agent whose prompt a concurrently stored session also has gets a new one."""
    connection.execute(_DELETE_PROMPTS, {"digests": dump(list(prompts))})
    return connection.execute(_DELETE_SESSIONS).rowcount


def note_import(connection: sqlite3.Connection, session_id: str, now: int) -> None:
    """Count the age of an imported session from its import, as its own times may be years old."""
    connection.execute(
        "INSERT OR REPLACE INTO session_retention (session_id, imported_at) VALUES (?, ?)", (session_id, now)
    )


def hide_unfinished(connection: sqlite3.Connection, session_id: str) -> None:
    """Hide a session that is being written until `show_finished`."""
    connection.execute(
        "INSERT INTO session_retention (session_id, marked_at) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET marked_at = excluded.marked_at",
        (session_id, _UNFINISHED),
    )


def show_finished(connection: sqlite3.Connection, session_id: str) -> None:
    connection.execute("UPDATE session_retention SET marked_at = NULL WHERE session_id = ?", (session_id,))


def give_up_unfinished(connection: sqlite3.Connection, now: int, session_id: str | None = None) -> None:
    """Have a session deleted that will not be finished; None: all."""
    connection.execute(
        "UPDATE session_retention SET marked_at = ? WHERE marked_at = ? AND session_id = coalesce(?, session_id)",
        (now, _UNFINISHED, session_id),
    )


def read_clock(connection: sqlite3.Connection, wall: int) -> int:
    """Return the time used for aging: the last one, advanced by the time since then but by at most a week per downtime.
    A wall clock that has jumped thus counts for at most a week (docs/reference/storage.md)."""
    row = connection.execute("SELECT seen_at, reached FROM retention_clock").fetchone()
    if row is None:
        newest: int | None = connection.execute("SELECT max(updated_at) FROM chat_sessions").fetchone()[0]
        row = (newest or wall, newest or wall)
    return min(wall, row[1] + min(max(wall - row[0], 0), MAX_DOWNTIME_MS))


def save_clock(connection: sqlite3.Connection, wall: int, reached: int) -> None:
    connection.execute("INSERT OR REPLACE INTO retention_clock VALUES (1, ?, ?)", (wall, reached))


_PARTS_BY_PRINCIPAL = """
SELECT CASE WHEN json_valid(s.metadata_json) THEN CAST(json_extract(s.metadata_json, '$.principal') AS BLOB) END,
  sum(p.parts)
FROM (SELECT session_id, count(*) AS parts FROM chat_parts GROUP BY session_id) p
JOIN chat_sessions s ON s.id = p.session_id
GROUP BY 1
"""
_UNFINISHED = 0
"""In the place of the time of a mark: the session is hidden like a marked one, but not deleted."""
_MARKED = f"SELECT session_id FROM session_retention WHERE marked_at > {_UNFINISHED}"  # noqa: S608  a constant
_KEPT = """
SELECT 1 FROM chat_sessions s WHERE s.id = ?
  AND NOT EXISTS (SELECT 1 FROM session_retention r WHERE r.session_id = s.id AND r.marked_at > 0)
"""
_DELETE_PARTS = f"""
DELETE FROM chat_parts WHERE rowid IN (SELECT rowid FROM chat_parts WHERE message_id = ? LIMIT {_AT_ONCE})
"""  # noqa: S608  it is a constant
_DIGEST = "json_extract(s.metadata_json, '$.system_prompt_digest')"
_BRIEFED = """
SELECT json_extract(b.value, '$.digest') FROM chat_sessions s, json_each(s.metadata_json, '$.briefs') b
WHERE json_extract(s.metadata_json, '$.briefs') IS NOT NULL AND b.type = 'object'
"""
_UNUSED = f"""
SELECT {_DIGEST} FROM chat_sessions s WHERE s.id IN ({_MARKED})
UNION {_BRIEFED} AND s.id IN ({_MARKED})
EXCEPT SELECT {_DIGEST} FROM chat_sessions s WHERE s.id NOT IN ({_MARKED})
EXCEPT {_BRIEFED} AND s.id NOT IN ({_MARKED})
"""  # noqa: S608  they are constants
_DELETE_PROMPTS = f"""
DELETE FROM system_prompts WHERE digest IN (SELECT value FROM json_each(:digests))
  AND NOT EXISTS (SELECT 1 FROM chat_sessions s WHERE {_DIGEST} = digest AND s.id NOT IN ({_MARKED}))
"""  # noqa: S608  they are constants
_DELETE_SESSIONS = f"""
DELETE FROM chat_sessions WHERE id IN ({_MARKED})
  AND NOT EXISTS (SELECT 1 FROM chat_messages m WHERE m.session_id = chat_sessions.id)
"""  # noqa: S608  it is a constant
