"""Requests: approvals and questions that wait for a person, each with the post that shows it. The functions work in the
transaction of their caller."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

RequestState = Literal["open", "decided"]
REQUEST_CODES = ("ALTER TABLE requests ADD COLUMN code TEXT",)
REQUEST_AGENTS = ("ALTER TABLE requests ADD COLUMN agent TEXT",)
REQUESTS = (
    """
    CREATE TABLE requests (
        token TEXT PRIMARY KEY,       -- of its buttons, and the key of its post
        bot TEXT NOT NULL,
        chat TEXT NOT NULL,
        workspace TEXT NOT NULL,
        user TEXT NOT NULL,           -- the principal of the session
        session TEXT NOT NULL,
        request TEXT NOT NULL,        -- its id at the agent
        since INTEGER NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('approval', 'question')),
        tool TEXT NOT NULL,
        input TEXT NOT NULL,          -- JSON, as are the next ones that are lists
        reason TEXT,
        always TEXT NOT NULL,
        requester TEXT NOT NULL,      -- the principal of the person who may decide, beside the approvers
        requester_name TEXT NOT NULL,
        origin TEXT,                  -- where its turn runs, if not in the chat's own session
        expires_at INTEGER NOT NULL,
        answers TEXT NOT NULL DEFAULT '[]',   -- of questions that were answered, while others are open
        picked TEXT NOT NULL DEFAULT '[]',    -- numbers of the options of the question that is shown
        reason_from TEXT,             -- the person whose next message is the reason
        reason_until INTEGER,
        deciding TEXT,                -- the update that decides it
        verdict TEXT,                 -- how it was decided, in words
        state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'decided')),
        created_at INTEGER NOT NULL,
        UNIQUE (workspace, user, session, request, since)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX open_requests ON requests (bot, chat) WHERE state = 'open'",
)
_COLUMNS = (
    "token, bot, chat, workspace, user, session, request, since, kind, tool, input, reason, always, requester,"
    " requester_name, origin, expires_at, answers, picked, reason_from, reason_until, deciding, verdict, state,"
    " created_at, code, agent"
)


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """An approval or a question in a chat."""

    token: str
    bot: str
    chat: str
    workspace: str
    user: str
    session: str
    request: str
    since: int
    kind: Literal["approval", "question"]
    tool: str
    input: dict[str, Any]
    reason: str | None
    always: Sequence[Any]
    requester: str
    requester_name: str
    origin: str | None
    expires_at: int
    answers: Sequence[Sequence[str]] = ()
    picked: Sequence[int] = ()
    reason_from: str | None = None
    reason_until: int | None = None
    deciding: str | None = None
    verdict: str | None = None
    state: RequestState = "open"
    created_at: int = 0
    code: str | None = None
    """Of an approval: what a decision in plain text repeats."""
    agent: str | None = None
    """The agent that asks; None: an earlier version has kept the request."""

    @property
    def id(self) -> str:
        """The id at the agent."""
        return self.request

    @property
    def session_id(self) -> str:
        """The session at the agent."""
        return self.session


def add_request_in(connection: sqlite3.Connection, new: StoredRequest) -> bool:
    """Add a request, and return whether it is new."""
    row = (
        *(new.token, new.bot, new.chat, new.workspace, new.user, new.session, new.request, new.since, new.kind),
        *(new.tool, json.dumps(new.input), new.reason, json.dumps([*new.always]), new.requester, new.requester_name),
        *(new.origin, new.expires_at, new.created_at, new.code, new.agent),
    )
    return bool(
        connection.execute(
            "INSERT INTO requests (token, bot, chat, workspace, user, session, request, since, kind, tool, input,"
            " reason, always, requester, requester_name, origin, expires_at, created_at, code, agent)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            row,
        ).rowcount
    )


def note_requester_in(connection: sqlite3.Connection, request: StoredRequest) -> None:
    """Note for an open request that is known whose message has led to it: it may have been seen before the reply."""
    connection.execute(
        "UPDATE requests SET requester = ?, requester_name = ?, origin = ? WHERE workspace = ? AND user = ?"
        " AND session = ? AND request = ? AND since = ? AND state = 'open'",
        (
            *(request.requester, request.requester_name, request.origin, request.workspace, request.user),
            *(request.session, request.request, request.since),
        ),
    )


def request_in(connection: sqlite3.Connection, token: str) -> StoredRequest | None:
    """Return a request by the token of its buttons."""
    found = _select(connection, "token = ?", token)
    return found[0] if found else None


def open_requests_in(connection: sqlite3.Connection, bot: str, chat: str | None = None) -> list[StoredRequest]:
    """Return the open requests of a bot, or of one of its chats, the oldest first."""
    if chat is None:
        return _select(connection, "bot = ? AND state = 'open' ORDER BY since", bot)
    return _select(connection, "bot = ? AND chat = ? AND state = 'open' ORDER BY since", bot, chat)


def count_unanswered_in(connection: sqlite3.Connection, bot: str, chat: str, workspace: str, *, after: int) -> int:
    """Return how many requests of a workspace have come into a chat after that time that nobody there has decided."""
    query = (
        "SELECT COUNT(*) FROM requests WHERE bot = ? AND chat = ? AND workspace = ? AND created_at > ?"
        " AND deciding IS NULL"
    )
    return connection.execute(query, (bot, chat, workspace, after)).fetchone()[0]


def show_requests_again_in(connection: sqlite3.Connection, bot: str, chat: str) -> bool:
    """Let the posts of a chat's open requests be shown after all, and return whether there are any that were given up:
    the chat could not be written to, and can be again."""
    query = (
        "UPDATE posts SET state = 'waiting' WHERE state = 'lost' AND key IN"
        " (SELECT token FROM requests WHERE bot = ? AND chat = ? AND state = 'open')"
    )
    return bool(connection.execute(query, (bot, chat)).rowcount)


def note_progress_in(
    connection: sqlite3.Connection, token: str, answers: Sequence[Sequence[str]], picked: Sequence[int]
) -> None:
    """Keep the answers so far, and the options that are picked."""
    query = "UPDATE requests SET answers = ?, picked = ? WHERE token = ? AND state = 'open'"
    connection.execute(query, (json.dumps([[*one] for one in answers]), json.dumps([*picked]), token))


def expect_reason_in(connection: sqlite3.Connection, token: str, person: str | None, until: int | None) -> None:
    """Let the next message of the person be the reason for a rejection; None: not any more."""
    query = "UPDATE requests SET reason_from = ?, reason_until = ? WHERE token = ?"
    connection.execute(query, (person, until, token))


def note_deciding_in(connection: sqlite3.Connection, token: str, update_id: str | None) -> None:
    """Remember the update that decides a request, before the agent is informed; None: the agent has refused it."""
    connection.execute("UPDATE requests SET deciding = ? WHERE token = ?", (update_id, token))


def is_being_decided_in(connection: sqlite3.Connection, request: StoredRequest) -> bool:
    """Whether an update decides it, which waits or is under way."""
    query = "SELECT 1 FROM updates WHERE bot = ? AND id = ? AND finished_at IS NULL"
    return request.deciding is not None and bool(connection.execute(query, (request.bot, request.deciding)).fetchone())


def end_request_in(connection: sqlite3.Connection, token: str, verdict: str) -> bool:
    """Note how a request was decided, and return whether it was open."""
    query = "UPDATE requests SET state = 'decided', verdict = ?, reason_from = NULL WHERE token = ? AND state = 'open'"
    return bool(connection.execute(query, (verdict, token)).rowcount)


def prune_requests_in(connection: sqlite3.Connection, *, before: int) -> int:
    """Forget decided requests that are older, and return how many these are."""
    return connection.execute("DELETE FROM requests WHERE state = 'decided' AND created_at < ?", (before,)).rowcount


def _select(connection: sqlite3.Connection, where: str, *values: object) -> list[StoredRequest]:
    query = f"SELECT {_COLUMNS} FROM requests WHERE {where}"  # noqa: S608
    return [_request(row) for row in connection.execute(query, values)]


def _request(row: tuple[Any, ...]) -> StoredRequest:
    values = list(row)
    for number in (10, 12, 17, 18):
        values[number] = json.loads(values[number])  # noqa: TID251  our own row
    return StoredRequest(*values)
