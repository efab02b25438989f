"""The inbox: updates that have come from a platform and wait to be handled.

An update is stored before the platform is informed that it has arrived, and its id is kept after its end: however
often it is delivered, it has one effect. The functions work in the transaction of their caller.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass
from functools import cache

from pydantic import TypeAdapter

from ..platform import Update

KEPT_MS = 30 * 24 * 3600 * 1000
"""How long the id of a finished update is known."""
KEPT_MOST = 100_000
"""Ids of finished updates that are known at most."""
KEPT_OF_CHAT = 20
"""The newest messages of each chat stay known however old they are: what was missed is read after the last one, and a
little before it."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An update that waits."""

    update: Update
    sender: str
    """The principal of the sender."""
    delay_notified: bool
    """Whether the chat has been informed that it takes longer."""
    urgent: bool
    """Whether it may be handled before others that have to be tried again."""


@cache
def _updates() -> TypeAdapter[Update]:
    return TypeAdapter(Update)


def _as_json(update: Update) -> str:
    """A name or a text may hold half of a surrogate pair, which no encoding has: a question mark stands for it."""
    return json.dumps(asdict(update), ensure_ascii=False).encode(errors="replace").decode()


def add_in(
    connection: sqlite3.Connection,
    bot: str,
    update: Update,
    *,
    sender: str,
    stranger: bool,
    now: int,
    urgent: bool = False,
) -> None:
    """Store an update; nothing happens if it is known. `now` is in epoch milliseconds."""
    connection.execute(
        "INSERT INTO updates (bot, id, chat, position, message, sender, stranger, received_at, body, urgent)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            *(bot, update.id, update.chat.id, update.order),
            update.message_id if update.kind == "message" else None,
            *(sender, stranger, now, _as_json(update), urgent),
        ),
    )


def is_known_in(connection: sqlite3.Connection, bot: str, update_id: str) -> bool:
    """Whether the update waits or has been handled."""
    found = connection.execute("SELECT 1 FROM updates WHERE bot = ? AND id = ?", (bot, update_id))
    return found.fetchone() is not None


def received_at_in(connection: sqlite3.Connection, bot: str, update_id: str) -> int:
    """Return when an update that waits was first received."""
    (received_at,) = connection.execute(
        "SELECT received_at FROM updates WHERE bot = ? AND id = ?", (bot, update_id)
    ).fetchone()
    return received_at


def count_waiting_in(connection: sqlite3.Connection, bot: str, sender: str) -> int:
    """Return how many updates of a person wait."""
    query = "SELECT COUNT(*) FROM updates WHERE bot = ? AND sender = ? AND finished_at IS NULL"
    return connection.execute(query, (bot, sender)).fetchone()[0]


def count_waiting_of_strangers_in(connection: sqlite3.Connection, bot: str) -> int:
    """Return how many updates wait of people who were not paired when they sent them."""
    query = "SELECT COUNT(*) FROM updates WHERE bot = ? AND finished_at IS NULL AND stranger"
    return connection.execute(query, (bot,)).fetchone()[0]


def waiting_chats_in(connection: sqlite3.Connection, bot: str) -> list[str]:
    """Return the chats in which an update waits, the one that has waited longest first."""
    query = "SELECT chat FROM updates WHERE bot = ? AND finished_at IS NULL GROUP BY chat ORDER BY MIN(arrival)"
    return [chat for (chat,) in connection.execute(query, (bot,))]


def first_waiting_in(
    connection: sqlite3.Connection, bot: str, chat: str, *, urgent_first: bool = False
) -> Waiting | None:
    """Return the update of a chat that comes first in the order in which people acted."""
    row = connection.execute(
        "SELECT body, sender, delay_notified, urgent FROM updates WHERE bot = ? AND chat = ? AND finished_at IS NULL"
        " ORDER BY urgent AND ? DESC, position, arrival LIMIT 1",
        (bot, chat, urgent_first),
    ).fetchone()
    return None if row is None else Waiting(_updates().validate_json(row[0]), row[1], bool(row[2]), bool(row[3]))


def has_urgent_in(connection: sqlite3.Connection, bot: str, chat: str) -> bool:
    """Whether an update of a chat waits that may be handled before others."""
    query = "SELECT 1 FROM updates WHERE bot = ? AND chat = ? AND finished_at IS NULL AND urgent"
    return connection.execute(query, (bot, chat)).fetchone() is not None


def waiting_before_in(connection: sqlite3.Connection, bot: str, update_id: str) -> list[str]:
    """Return the ids of the messages and edits that the sender of an update has sent before it in its chat, and that
    wait. Those that are urgent are not among them."""
    query = (
        "SELECT earlier.id FROM updates AS one JOIN updates AS earlier USING (bot, chat, sender)"
        " WHERE one.bot = ? AND one.id = ? AND earlier.finished_at IS NULL AND NOT earlier.urgent"
        " AND (earlier.position, earlier.arrival) < (one.position, one.arrival)"
        " AND json_extract(earlier.body, '$.kind') <> 'button'"
    )
    return [id for (id,) in connection.execute(query, (bot, update_id))]


def note_delay_in(connection: sqlite3.Connection, bot: str, update_id: str) -> None:
    """Remember that the chat has been informed that the update takes longer."""
    connection.execute("UPDATE updates SET delay_notified = 1 WHERE bot = ? AND id = ?", (bot, update_id))


def finish_in(connection: sqlite3.Connection, bot: str, update_id: str, *, now: int) -> None:
    """End an update: it is not handled again. Its text is removed, its id is kept. `now` is in epoch milliseconds."""
    connection.execute(
        "UPDATE updates SET finished_at = ?, body = NULL WHERE bot = ? AND id = ? AND finished_at IS NULL",
        (now, bot, update_id),
    )


def drop_of_sender_in(connection: sqlite3.Connection, sender: str, *, now: int) -> int:
    """End all updates of a person that wait, and return how many these are."""
    query = "UPDATE updates SET finished_at = ?, body = NULL WHERE sender = ? AND finished_at IS NULL"
    return connection.execute(query, (now, sender)).rowcount


def last_messages_in(connection: sqlite3.Connection, bot: str) -> dict[str, str]:
    """Return the id of the last message of a person that is known, by chat."""
    return {chat: message for of, chat, message, _ in _newest_of_chats_in(connection, 1) if of == bot}


def prune_in(connection: sqlite3.Connection, *, now: int, most: int = KEPT_MOST) -> int:
    """Forget finished updates that no platform delivers again, and return how many these are."""
    kept = json.dumps([arrival for _, _, _, arrival in _newest_of_chats_in(connection, KEPT_OF_CHAT)])
    old = connection.execute(
        "DELETE FROM updates WHERE finished_at < ? AND arrival NOT IN (SELECT value FROM json_each(?))",
        (now - KEPT_MS, kept),
    ).rowcount
    surplus = connection.execute(
        "DELETE FROM updates WHERE arrival IN"
        " (SELECT arrival FROM updates WHERE finished_at IS NOT NULL AND arrival NOT IN"
        " (SELECT value FROM json_each(?)) ORDER BY finished_at DESC LIMIT -1 OFFSET ?)",
        (kept, most),
    ).rowcount
    return old + surplus


def _newest_of_chats_in(connection: sqlite3.Connection, count: int) -> list[tuple[str, str, str, int]]:
    """Return bot, chat, id and arrival of the newest messages of each chat, of those who were paired when they wrote
    or have been since."""
    query = (
        "SELECT bot, chat, message, arrival FROM"
        " (SELECT *, row_number() OVER (PARTITION BY bot, chat ORDER BY position DESC, arrival DESC) AS number"
        " FROM updates WHERE message IS NOT NULL AND (NOT stranger OR EXISTS (SELECT 1 FROM admissions"
        " WHERE admissions.bot = updates.bot AND admissions.identity = updates.sender))) WHERE number <= ?"
    )
    return connection.execute(query, (count,)).fetchall()
