"""Chats that have another number on their platform than at first. The functions work in the transaction of their
caller."""

from __future__ import annotations

import sqlite3

MOVES = (
    """
    CREATE TABLE moves (
        position INTEGER PRIMARY KEY,
        bot TEXT NOT NULL,
        number TEXT NOT NULL,    -- of the chat on its platform
        chat TEXT NOT NULL,      -- its id, the first number that it had
        UNIQUE (bot, number)
    ) STRICT
    """,
)
MOST_UNKNOWN = 1_000
"""Moves that are kept of chats without a conversation: anybody may add a bot to groups, and move these."""


def note_move_in(connection: sqlite3.Connection, bot: str, chat: str, number: str) -> None:
    """Remember which number the platform has for a chat; nothing happens if it is known."""
    row = {"bot": bot, "number": number, "chat": chat, "most": MOST_UNKNOWN}
    connection.execute(
        "INSERT INTO moves (bot, number, chat) VALUES (:bot, :number, :chat) ON CONFLICT DO NOTHING", row
    )
    connection.execute(
        "DELETE FROM moves WHERE bot = :bot AND position <= (SELECT max(position) - :most FROM moves)"
        " AND NOT EXISTS (SELECT 1 FROM chats WHERE chats.bot = moves.bot AND chats.chat = moves.chat)",
        row,
    )


def moves_in(connection: sqlite3.Connection, bot: str) -> dict[str, str]:
    """Return the ids of the chats of a bot that have another number now, by that number."""
    return dict(connection.execute("SELECT number, chat FROM moves WHERE bot = ?", (bot,)).fetchall())
