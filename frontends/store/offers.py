"""Offers: messages that wait until their writer has pressed a button, such as one that would go back in the
conversation. The functions work in the transaction of their caller."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter

from ..platform import Update

OFFERS = (
    """
    CREATE TABLE offers (
        token TEXT PRIMARY KEY,       -- of its buttons, and the key of its post
        bot TEXT NOT NULL,
        chat TEXT NOT NULL,
        person TEXT NOT NULL,         -- the principal who may press
        target TEXT NOT NULL,         -- the first reply that would be taken back
        body TEXT NOT NULL,           -- the update with the message, as JSON
        done INTEGER NOT NULL DEFAULT 0,
        created_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A message that waits for a press."""

    token: str
    bot: str
    chat: str
    person: str
    target: str
    update: Update
    done: bool = False


@cache
def _updates() -> TypeAdapter[Update]:
    return TypeAdapter(Update)


def add_offer_in(connection: sqlite3.Connection, offer: Offer, *, now: int) -> None:
    """Add an offer; nothing happens if it is known."""
    body = _updates().dump_json(offer.update).decode()
    connection.execute(
        "INSERT INTO offers (token, bot, chat, person, target, body, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (offer.token, offer.bot, offer.chat, offer.person, offer.target, body, now),
    )


def offer_in(connection: sqlite3.Connection, token: str) -> Offer | None:
    """Return an offer by the token of its buttons."""
    row = connection.execute(
        "SELECT token, bot, chat, person, target, body, done FROM offers WHERE token = ?", (token,)
    ).fetchone()
    if row is None:
        return None
    token, bot, chat, person, target, body, done = row
    return Offer(token, bot, chat, person, target, _updates().validate_json(body), bool(done))


def replace_offered_in(
    connection: sqlite3.Connection, bot: str, chat: str, person: str, message: str, text: str
) -> None:
    """Give a message that waits the text that its writer has given it; nothing happens if none waits."""
    if text.strip():
        connection.execute(
            "UPDATE offers SET body = json_set(body, '$.text', ?) WHERE bot = ? AND chat = ? AND person = ?"
            " AND NOT done AND json_extract(body, '$.message_id') = ?",
            (text, bot, chat, person, message),
        )


def end_offer_in(connection: sqlite3.Connection, token: str) -> None:
    """Note that a button was pressed."""
    connection.execute("UPDATE offers SET done = 1 WHERE token = ?", (token,))


def prune_offers_in(connection: sqlite3.Connection, *, before: int) -> int:
    """Forget older offers, and return how many these are."""
    return connection.execute("DELETE FROM offers WHERE created_at < ?", (before,)).rowcount
