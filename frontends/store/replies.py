"""Replies: messages that an agent has, each with the post that shows its turn. The functions work in the transaction of
their caller."""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, dataclass, fields
from typing import Literal

ReplyState = Literal["running", "done", "joined", "rewound"]
REPLIES = (
    """
    CREATE TABLE replies (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,     -- of its post too
        bot TEXT NOT NULL,
        chat TEXT NOT NULL,
        workspace TEXT NOT NULL,
        user TEXT NOT NULL,           -- the principal of the session
        session TEXT NOT NULL,
        message_id TEXT NOT NULL,     -- at the agent
        text TEXT NOT NULL,           -- as the agent has it
        on_busy TEXT NOT NULL,
        model TEXT,
        agent TEXT,
        requester TEXT NOT NULL,      -- the principal of the person
        requester_name TEXT NOT NULL,
        platform_message TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'joined', 'rewound'))
    ) STRICT
    """,
    "CREATE INDEX running_replies ON replies (bot) WHERE state = 'running'",
    "CREATE INDEX replies_of_session ON replies (bot, chat, session, position)",
    "CREATE INDEX replies_of_messages ON replies (bot, chat, platform_message)",
    "CREATE INDEX replies_of_turns ON replies (session, message_id)",
)


@dataclass(frozen=True, slots=True)
class Reply:
    """A message that the agent has, and the reply to it."""

    key: str
    bot: str
    chat: str
    workspace: str
    user: str
    session: str
    message_id: str
    text: str
    on_busy: str
    model: str | None
    agent: str | None
    requester: str
    requester_name: str
    platform_message: str
    state: ReplyState = "running"


_COLUMNS = ", ".join(field.name for field in fields(Reply))


def add_reply_in(connection: sqlite3.Connection, reply: Reply) -> None:
    """Add a reply; nothing happens if it is known."""
    marks = ", ".join("?" for _ in fields(Reply))
    query = f"INSERT INTO replies ({_COLUMNS}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608
    connection.execute(query, astuple(reply))


def end_reply_in(connection: sqlite3.Connection, key: str, state: ReplyState) -> None:
    """Note how a reply that was running has ended."""
    connection.execute("UPDATE replies SET state = ? WHERE key = ? AND state = 'running'", (state, key))


def repeat_reply_in(connection: sqlite3.Connection, key: str, text: str) -> None:
    """Note that the message has another text now, which the agent answers anew."""
    connection.execute("UPDATE replies SET text = ?, state = 'running' WHERE key = ?", (text, key))


def running_replies_in(connection: sqlite3.Connection, bot: str) -> list[Reply]:
    """Return the replies whose turns have not ended, as far as is known."""
    return _select(connection, "bot = ? AND state = 'running' ORDER BY position", bot)


def running_replies_from_in(connection: sqlite3.Connection, first: Reply) -> list[Reply]:
    """Return those of this reply and all later ones of its session whose turns have not ended, as far as is known."""
    return _select(connection, f"{_FROM} AND state = 'running' ORDER BY position", *_from(first))


def reply_in(connection: sqlite3.Connection, key: str) -> Reply | None:
    """Return a reply; None if there is none of that key."""
    return _first(_select(connection, "key = ?", key))


def replies_of_session_in(
    connection: sqlite3.Connection, bot: str, chat: str, session: str, *, limit: int = 500
) -> list[Reply]:
    """Return the replies of a session that were not rewound, the last one first. Messages that have joined another's
    turn are left out."""
    where = "bot = ? AND chat = ? AND session = ? AND state IN ('running', 'done') ORDER BY position DESC LIMIT ?"
    return _select(connection, where, bot, chat, session, limit)


def last_reply_in(connection: sqlite3.Connection, bot: str, chat: str, session: str) -> Reply | None:
    """Return the reply to the last message of a session that was not rewound, also one that has joined another turn."""
    where = "bot = ? AND chat = ? AND session = ? AND state != 'rewound' ORDER BY position DESC LIMIT 1"
    return _first(_select(connection, where, bot, chat, session))


def count_replies_in(connection: sqlite3.Connection, bot: str, chat: str, session: str) -> int:
    """Return how many messages the session of a chat has ever had from it."""
    query = "SELECT COUNT(*) FROM replies WHERE bot = ? AND chat = ? AND session = ?"
    return connection.execute(query, (bot, chat, session)).fetchone()[0]


def reply_of_message_in(connection: sqlite3.Connection, bot: str, chat: str, message: str) -> Reply | None:
    """Return the reply to a message of the platform."""
    return _first(
        _select(connection, "bot = ? AND chat = ? AND platform_message = ? ORDER BY position", bot, chat, message)
    )


def reply_of_turn_in(
    connection: sqlite3.Connection, workspace: str, user: str, session: str, message_id: str
) -> Reply | None:
    """Return the reply of a turn. The workspace counts too: an agent may name the turns of another one."""
    where = "workspace = ? AND user = ? AND session = ? AND message_id = ?"
    return _first(_select(connection, where, workspace, user, session, message_id))


def rewind_replies_in(connection: sqlite3.Connection, first: Reply) -> int:
    """Note that this reply and all later ones of its session are hidden, and return how many these are. The post of one
    whose turn has not ended stays as it is, because nobody follows that turn any more."""
    hidden = f"SELECT key FROM replies WHERE {_FROM}"  # noqa: S608
    unfinished = f"state = 'waiting' AND pieces IS NULL AND key IN ({hidden})"
    connection.execute(f"UPDATE posts SET state = 'shown' WHERE {unfinished}", _from(first))  # noqa: S608
    return connection.execute(f"UPDATE replies SET state = 'rewound' WHERE {_FROM}", _from(first)).rowcount  # noqa: S608


def prune_replies_in(connection: sqlite3.Connection) -> int:
    """Forget replies whose post was forgotten, and return how many these are."""
    return connection.execute(
        "DELETE FROM replies WHERE state != 'running'"
        " AND NOT EXISTS (SELECT 1 FROM posts WHERE posts.key = replies.key)"
    ).rowcount


_FROM = "bot = ? AND chat = ? AND session = ? AND position >= (SELECT position FROM replies WHERE key = ?)"
"""A reply and all later ones of its session."""


def _from(first: Reply) -> tuple[str, ...]:
    return first.bot, first.chat, first.session, first.key


def _select(connection: sqlite3.Connection, where: str, *values: object) -> list[Reply]:
    query = f"SELECT {_COLUMNS} FROM replies WHERE {where}"  # noqa: S608
    return [Reply(*row) for row in connection.execute(query, values)]


def _first(found: list[Reply]) -> Reply | None:
    return found[0] if found else None
