"""Posts: what the bot has to say in a chat, as it should look, and the messages of the platform that show it.

A post may take several messages. What a message shall show is on disk before it is sent, its id after that. The
functions work in the transaction of their caller.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter

from ..platform import Piece

POSTS = (
    """
    CREATE TABLE posts (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,
        bot TEXT NOT NULL,
        chat TEXT NOT NULL,
        reply_to TEXT,
        pieces TEXT,             -- how it should look, as JSON; NULL while the turn that it shows runs
        file_name TEXT,          -- of a post that is a file
        content BLOB,            -- until it has been sent
        state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'shown', 'lost')),
        created_at INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX waiting_posts ON posts (bot, chat, position) WHERE state = 'waiting'",
    """
    CREATE TABLE post_messages (
        post TEXT NOT NULL REFERENCES posts (key) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        key TEXT NOT NULL,
        after TEXT,              -- the last message of the chat when it was sent
        piece TEXT NOT NULL,     -- what it shows, or was sent to show, as JSON
        message TEXT,            -- its id, once it is known
        absent INTEGER NOT NULL DEFAULT 0, -- the platform does not have it
        PRIMARY KEY (post, number)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX posts_of_messages ON post_messages (message)",
)


@dataclass(frozen=True, slots=True)
class PostMessage:
    """A message of the platform that shows a part of a post."""

    number: int
    key: str
    after: str | None
    piece: Piece
    id: str | None
    """None: it was to be sent, and may have been, unless it is absent."""
    absent: bool = False
    """Whether the platform does not have it. It is sent under its key when the post needs it."""

    @property
    def is_lost(self) -> bool:
        """Whether the platform may have it under an id that was not stored."""
        return self.id is None and not self.absent


@dataclass(frozen=True, slots=True)
class Post:
    """Something that the bot says in a chat."""

    key: str
    reply_to: str | None
    pieces: Sequence[Piece] | None
    """How it should look; None while the turn that it shows runs."""
    file_name: str | None
    messages: Sequence[PostMessage]
    session: str | None
    """Of a reply to a message of a person."""

    @property
    def shown(self) -> Sequence[Piece]:
        """What its messages show."""
        return [one.piece for one in self.messages if one.piece.markdown and not one.absent]


@cache
def _pieces() -> TypeAdapter[list[Piece]]:
    return TypeAdapter(list[Piece])


def add_post_in(
    connection: sqlite3.Connection,
    bot: str,
    chat: str,
    key: str,
    pieces: Sequence[Piece] | None,
    *,
    reply_to: str | None = None,
    file: tuple[str, bytes] | None = None,
    now: int,
) -> bool:
    """Add a post, and return whether it is new. The chat must be known. A `file` has a name and its content."""
    name, content = file or (None, None)
    row = (key, bot, chat, reply_to, dump_pieces(pieces), name, content, now)
    return bool(
        connection.execute(
            "INSERT INTO posts (key, bot, chat, reply_to, pieces, file_name, content, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            row,
        ).rowcount
    )


def change_post_in(connection: sqlite3.Connection, key: str, pieces: Sequence[Piece] | None) -> None:
    """Let a post look like this from now on; None: a turn that runs writes it. One that was lost stays so."""
    connection.execute(
        "UPDATE posts SET pieces = ?, state = 'waiting' WHERE key = ? AND state != 'lost'", (dump_pieces(pieces), key)
    )


def post_in(connection: sqlite3.Connection, key: str) -> Post | None:
    """Return a post; None if there is none of that key."""
    row = connection.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone()
    return None if row is None else _post(connection, row)


def waiting_posts_in(connection: sqlite3.Connection, bot: str, chat: str) -> list[Post]:
    """Return the posts of a chat that do not look as they should, or may not, in their order."""
    rows = connection.execute(
        f"{_SELECT} WHERE bot = ? AND chat = ? AND state = 'waiting' ORDER BY position", (bot, chat)
    ).fetchall()
    return [_post(connection, row) for row in rows]


def chats_with_posts_in(connection: sqlite3.Connection, bot: str) -> list[str]:
    """Return the chats in which posts wait."""
    rows = connection.execute("SELECT DISTINCT chat FROM posts WHERE bot = ? AND state = 'waiting'", (bot,))
    return [chat for (chat,) in rows]


def content_in(connection: sqlite3.Connection, key: str) -> bytes:
    """Return the content of a post that is a file."""
    (content,) = connection.execute("SELECT content FROM posts WHERE key = ?", (key,)).fetchone()
    return content or b""


def note_intent_in(connection: sqlite3.Connection, post: str, message: PostMessage) -> None:
    """Note what a message is to show before it is sent."""
    connection.execute(
        "INSERT OR REPLACE INTO post_messages (post, number, key, after, piece) VALUES (?, ?, ?, ?, ?)",
        (post, message.number, message.key, message.after, dump_pieces([message.piece])),
    )


def note_message_in(connection: sqlite3.Connection, post: str, number: int, message_id: str, piece: Piece) -> None:
    """Note the id of a message that was sent, and what it shows."""
    connection.execute(
        "UPDATE post_messages SET message = ?, piece = ? WHERE post = ? AND number = ?",
        (message_id, dump_pieces([piece]), post, number),
    )


def note_absent_in(connection: sqlite3.Connection, post: str, message: PostMessage) -> None:
    """Note that the platform does not have a message. After one that it had, the next is sent under another key,
    because a platform may take a second message of the same key for the first."""
    connection.execute(
        "UPDATE post_messages SET absent = 1, key = ? WHERE post = ? AND number = ?",
        (message.key if message.id is None else f"{message.key}+", post, message.number),
    )


def end_post_in(connection: sqlite3.Connection, post: Post) -> None:
    """Note that a post looks as it should, unless that has changed meanwhile. The content of a file is removed."""
    connection.execute(
        "UPDATE posts SET state = 'shown', content = NULL WHERE key = ? AND pieces = ? AND state = 'waiting'",
        (post.key, dump_pieces(post.pieces)),
    )


def lose_post_in(connection: sqlite3.Connection, key: str) -> None:
    """Give a post up: the platform refuses it."""
    connection.execute("UPDATE posts SET state = 'lost', content = NULL WHERE key = ?", (key,))


def lose_posts_in(connection: sqlite3.Connection, bot: str, chat: str) -> int:
    """Give up all posts that wait in a chat which is gone, and return how many these are."""
    return connection.execute(
        "UPDATE posts SET state = 'lost', content = NULL WHERE bot = ? AND chat = ? AND state = 'waiting'", (bot, chat)
    ).rowcount


def post_of_message_in(connection: sqlite3.Connection, bot: str, chat: str, message: str) -> str | None:
    """Return the key of the post that a message shows."""
    row = connection.execute(
        "SELECT posts.key FROM post_messages JOIN posts ON posts.key = post WHERE message = ? AND bot = ? AND chat = ?",
        (message, bot, chat),
    ).fetchone()
    return None if row is None else row[0]


def known_messages_in(connection: sqlite3.Connection, bot: str, chat: str, after: str) -> list[str]:
    """Return the ids of the bot's messages in a chat and its topics that come after another one, as far as they are
    known, and the last one before them: topics of a group number their messages together."""
    known = (
        "SELECT message FROM post_messages JOIN posts ON posts.key = post WHERE bot = :bot AND message IS NOT NULL"
        " AND (chat = :group OR chat LIKE :group || '/%') AND (length(message), message)"
    )
    values = {"bot": bot, "group": chat.partition("/")[0], "after": after}
    later = connection.execute(f"{known} > (length(:after), :after)", values).fetchall()
    last = connection.execute(
        f"{known} <= (length(:after), :after) ORDER BY length(message) DESC, message DESC LIMIT 1", values
    ).fetchall()
    return [message for (message,) in [*last, *later]]


def prune_posts_in(connection: sqlite3.Connection, *, before: int) -> int:
    """Forget posts that do not change any more and are older, and return how many these are."""
    return connection.execute("DELETE FROM posts WHERE state != 'waiting' AND created_at < ?", (before,)).rowcount


_SELECT = (
    "SELECT key, reply_to, pieces, file_name, (SELECT session FROM replies WHERE replies.key = posts.key) FROM posts"
)


def _post(connection: sqlite3.Connection, row: tuple[str, str | None, str | None, str | None, str | None]) -> Post:
    key, reply_to, pieces, file_name, session = row
    rows = connection.execute(
        "SELECT number, key, after, piece, message, absent FROM post_messages WHERE post = ? ORDER BY number", (key,)
    )
    messages = [
        PostMessage(one[0], one[1], one[2], _pieces().validate_json(one[3])[0], one[4], bool(one[5])) for one in rows
    ]
    shown = None if pieces is None else _pieces().validate_json(pieces)
    return Post(key, reply_to, shown, file_name, messages, session)


def dump_pieces(pieces: Sequence[Piece] | None) -> str | None:
    """Return pieces as they are stored."""
    return None if pieces is None else _pieces().dump_json([*pieces]).decode()
