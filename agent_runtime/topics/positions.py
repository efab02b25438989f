"""How far each subscription has come, in the transaction that stores the turn: no message becomes two turns.

The host delivers at least once, and what comes again may come in other pieces. So a message is known by its number in
its topic, whatever the delivery.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping

from ..store import Migration


def _create(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE topic_positions (subscription_id TEXT PRIMARY KEY, seq INTEGER NOT NULL,"
        " session_id TEXT NOT NULL REFERENCES chat_sessions (id) ON DELETE CASCADE)"
    )
    connection.execute("CREATE INDEX topic_positions_session ON topic_positions (session_id)")


MIGRATIONS = (Migration(12, "positions in topics", _create),)


def read_positions(connection: sqlite3.Connection, subscription_ids: Collection[str]) -> dict[str, int]:
    """Return the seq of the last message that each subscription has brought; none for one that has brought nothing."""
    marks = ", ".join("?" * len(subscription_ids))
    query = f"SELECT subscription_id, seq FROM topic_positions WHERE subscription_id IN ({marks})"  # noqa: S608  marks only
    return {row[0]: row[1] for row in connection.execute(query, (*subscription_ids,))}


def save_positions(connection: sqlite3.Connection, session_id: str, positions: Mapping[str, int]) -> None:
    """Store how far subscriptions of a session have come."""
    connection.executemany(
        "INSERT INTO topic_positions (subscription_id, seq, session_id) VALUES (?, ?, ?)"
        " ON CONFLICT (subscription_id) DO UPDATE SET seq = max(seq, excluded.seq)",
        [(subscription_id, seq, session_id) for subscription_id, seq in positions.items()],
    )


def forget_others(connection: sqlite3.Connection, subscription_ids: Collection[str]) -> None:
    """Delete the positions of subscriptions that are over."""
    marks = ", ".join("?" * len(subscription_ids))
    statement = f"DELETE FROM topic_positions WHERE subscription_id NOT IN ({marks})"  # noqa: S608  marks only
    connection.execute(statement, (*subscription_ids,))
