"""Chats: the session of each, and what people have chosen for it. The functions work in the transaction of their
caller."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter

from ..platform import Chat

CHATS = (
    """
    CREATE TABLE chats (
        bot TEXT NOT NULL,
        chat TEXT NOT NULL,
        body TEXT NOT NULL,      -- the chat as JSON
        number INTEGER NOT NULL DEFAULT 1,
        session TEXT,            -- a session that is not named by the number: of a fork, or one that was chosen
        workspace TEXT,
        model TEXT,
        agent TEXT,
        forking TEXT,            -- the update that forks the session
        last_message TEXT,       -- the last message of the chat that is known
        PRIMARY KEY (bot, chat)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE TABLE event_positions (stream TEXT PRIMARY KEY, position TEXT NOT NULL) STRICT, WITHOUT ROWID",
)
_COLUMNS = "bot, body, number, session, workspace, model, agent, forking, last_message"


@dataclass(frozen=True, slots=True)
class StoredChat:
    """What is known of a chat."""

    bot: str
    chat: Chat
    number: int
    own_session: str | None
    """The session, if it is not named by the number."""
    workspace: str | None
    model: str | None
    agent: str | None
    forking: str | None
    last_message: str | None

    @property
    def session(self) -> str:
        """The name of the session at the agent."""
        return self.own_session or f"{self.bot}-{self.chat.id.replace('/', '_')}-{self.number}"


@cache
def _chats() -> TypeAdapter[Chat]:
    return TypeAdapter(Chat)


def remember_chat_in(connection: sqlite3.Connection, bot: str, chat: Chat, message: str | None = None) -> StoredChat:
    """Note the chat as it is now, and the message that came, and return what is known of it."""
    connection.execute(
        "INSERT INTO chats (bot, chat, body) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body",
        (bot, chat.id, _chats().dump_json(chat).decode()),
    )
    if message is not None:
        note_last_message_in(connection, bot, chat.id, message)
    found = chat_in(connection, bot, chat.id)
    assert found is not None  # noqa: S101  it was written above
    return found


def chat_in(connection: sqlite3.Connection, bot: str, chat: str) -> StoredChat | None:
    """Return what is known of a chat; None if nothing is."""
    query = f"SELECT {_COLUMNS} FROM chats WHERE bot = ? AND chat = ?"  # noqa: S608
    row = connection.execute(query, (bot, chat)).fetchone()
    return None if row is None else StoredChat(row[0], _chats().validate_json(row[1]), *row[2:])


def newest_private_message_in(connection: sqlite3.Connection, bot: str) -> str | None:
    """Return the newest message of all private chats of a bot: on Telegram they have one numbering."""
    query = (
        "SELECT last_message FROM chats WHERE bot = ? AND last_message IS NOT NULL AND json_extract(body, '$.private')"
        " ORDER BY length(last_message) DESC, last_message DESC LIMIT 1"
    )
    found = connection.execute(query, (bot,)).fetchone()
    return None if found is None else found[0]


def note_last_message_in(connection: sqlite3.Connection, bot: str, chat: str, message: str) -> None:
    """Remember a message as the chat's last one, unless a later one is known. Ids of both platforms grow."""
    connection.execute(
        "UPDATE chats SET last_message = :message WHERE bot = :bot AND chat = :chat AND (last_message IS NULL"
        " OR (length(:message), :message) > (length(last_message), last_message))",
        {"bot": bot, "chat": chat, "message": message},
    )


def begin_session_in(
    connection: sqlite3.Connection, bot: str, chat: str, *, session: str | None = None, workspace: str | None = None
) -> None:
    """Give the chat a new session, or one that exists; in another workspace if one is given."""
    connection.execute(
        "UPDATE chats SET number = number + iif(:session IS NULL, 1, 0), session = :session, forking = NULL,"
        " workspace = coalesce(:workspace, workspace),"
        " model = iif(:workspace IS NULL, model, NULL), agent = iif(:workspace IS NULL, agent, NULL)"
        " WHERE bot = :bot AND chat = :chat",
        {"bot": bot, "chat": chat, "session": session, "workspace": workspace},
    )


def note_fork_in(connection: sqlite3.Connection, bot: str, chat: str, update_id: str) -> None:
    """Remember that the update forks the chat's session, before the agent is asked to."""
    connection.execute("UPDATE chats SET forking = ? WHERE bot = ? AND chat = ?", (update_id, bot, chat))


def choose_model_in(connection: sqlite3.Connection, bot: str, chat: str, model: str | None) -> None:
    """Set the model of the chat; None: the agent's own."""
    connection.execute("UPDATE chats SET model = ? WHERE bot = ? AND chat = ?", (model, bot, chat))


def choose_agent_in(connection: sqlite3.Connection, bot: str, chat: str, agent: str | None) -> None:
    """Set which agent of the workspace answers in the chat; None: the session's own."""
    connection.execute("UPDATE chats SET agent = ? WHERE bot = ? AND chat = ?", (agent, bot, chat))


def event_position_in(connection: sqlite3.Connection, stream: str) -> str | None:
    """Return the id of the last event of a stream that was handled."""
    row = connection.execute("SELECT position FROM event_positions WHERE stream = ?", (stream,)).fetchone()
    return None if row is None else row[0]


def note_event_in(connection: sqlite3.Connection, stream: str, position: str) -> None:
    """Remember the last event of a stream that was handled."""
    connection.execute("INSERT OR REPLACE INTO event_positions VALUES (?, ?)", (stream, position))
