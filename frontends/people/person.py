"""People: who they are on the platforms, and which bots they may use.

An identity is an account of a platform (`telegram:123`). A person is named by the first of their identities; others
may be linked to it. A bot is used by those whom its operator has admitted to it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from ..platform import Chat, PlatformName, Sender


@dataclass(frozen=True, slots=True)
class Person:
    """A person who is paired."""

    principal: str
    """What agents know them by: their first identity."""
    identities: frozenset[str]
    """All their accounts, `principal` too."""


def identity_of(platform: PlatformName, sender: Sender) -> str:
    """Return the identity of a sender."""
    return f"{platform}:{sender.id}"


def person_in(connection: sqlite3.Connection, bot: str, identity: str) -> Person | None:
    """Return the person with the identity, if they may use the bot."""
    row = connection.execute(
        "SELECT person FROM identities JOIN admissions USING (identity) WHERE bot = ? AND identity = ?", (bot, identity)
    ).fetchone()
    return None if row is None else Person(row[0], identities_in(connection, row[0]))


def identities_in(connection: sqlite3.Connection, principal: str) -> frozenset[str]:
    """Return the identities of a person; none if there is no such person."""
    found = connection.execute("SELECT identity FROM identities WHERE person = ?", (principal,))
    return frozenset(identity for (identity,) in found)


def principals_in(connection: sqlite3.Connection, bot: str) -> list[str]:
    """Return the principals of all who may use the bot."""
    found = connection.execute(
        "SELECT DISTINCT person FROM identities JOIN admissions USING (identity) WHERE bot = ? ORDER BY 1", (bot,)
    )
    return [principal for (principal,) in found]


def may_use_in(connection: sqlite3.Connection, bot: str, principal: str, chat: Chat) -> bool:
    """Whether a person may use the bot in a chat: in a private one of theirs, or in any that is not private."""
    found = connection.execute(
        "SELECT 1 FROM identities JOIN admissions USING (identity) WHERE bot = ? AND person = ?"
        " AND (? OR private_chat IS NULL OR private_chat = ?)",
        (bot, principal, not chat.private, chat.id),
    )
    return found.fetchone() is not None


def private_chats_in(connection: sqlite3.Connection, bot: str, principal: str) -> list[str]:
    """Return the ids of the private chats in which the bot can write to a person."""
    found = connection.execute(
        "SELECT private_chat FROM admissions JOIN identities USING (identity)"
        " WHERE bot = ? AND person = ? AND private_chat IS NOT NULL",
        (bot, principal),
    )
    return [chat for (chat,) in found]


def note_private_chat_in(connection: sqlite3.Connection, bot: str, identity: str, chat: str) -> None:
    """Remember in which private chat the person writes to the bot."""
    connection.execute(
        "UPDATE admissions SET private_chat = ? WHERE bot = ? AND identity = ? AND private_chat IS NOT ?",
        (chat, bot, identity, chat),
    )
