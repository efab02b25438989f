"""The tables of the database, and how one of an earlier version becomes one of this."""

from __future__ import annotations

from .chats import CHATS
from .moves import MOVES
from .offers import OFFERS
from .posts import POSTS
from .replies import REPLIES
from .requests import REQUEST_AGENTS, REQUEST_CODES, REQUESTS

Statements = tuple[str, ...]

INBOX: Statements = (
    """
    CREATE TABLE updates (
        arrival INTEGER PRIMARY KEY AUTOINCREMENT,
        bot TEXT NOT NULL,
        id TEXT NOT NULL,
        chat TEXT NOT NULL,
        position INTEGER NOT NULL,
        message TEXT,            -- the id of the message that came; NULL for an edit and for a button
        sender TEXT NOT NULL,    -- a principal
        stranger INTEGER NOT NULL,
        received_at INTEGER NOT NULL,
        delay_notified INTEGER NOT NULL DEFAULT 0,
        finished_at INTEGER,
        body TEXT,               -- the update as JSON, while it waits
        UNIQUE (bot, id)
    ) STRICT
    """,
    "CREATE INDEX waiting_of_chat ON updates (bot, chat, position, arrival) WHERE finished_at IS NULL",
    "CREATE INDEX waiting_of_sender ON updates (bot, sender) WHERE finished_at IS NULL",
    "CREATE INDEX waiting_of_strangers ON updates (bot) WHERE finished_at IS NULL AND stranger",
    "CREATE INDEX finished_updates ON updates (finished_at) WHERE finished_at IS NOT NULL",
)

URGENT_UPDATES: Statements = ("ALTER TABLE updates ADD COLUMN urgent INTEGER NOT NULL DEFAULT 0",)

PEOPLE: Statements = (
    "CREATE TABLE identities (identity TEXT PRIMARY KEY, person TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE INDEX identities_of_person ON identities (person)",
    """
    CREATE TABLE admissions (
        bot TEXT NOT NULL,
        identity TEXT NOT NULL REFERENCES identities (identity) ON DELETE CASCADE,
        source TEXT NOT NULL CHECK (source IN ('code', 'settings')),
        private_chat TEXT,       -- where the person last wrote to the bot alone
        PRIMARY KEY (bot, identity)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX admissions_of_identity ON admissions (identity)",
    """
    CREATE TABLE pairings (
        bot TEXT NOT NULL,
        identity TEXT NOT NULL,
        chat TEXT NOT NULL,
        code_hash BLOB NOT NULL UNIQUE,
        expires_at INTEGER NOT NULL,
        confirmed_as TEXT,       -- the person, until the chat has been informed
        PRIMARY KEY (bot, identity)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE TABLE wrong_codes (at INTEGER NOT NULL) STRICT",
    "CREATE TABLE code_salt (salt BLOB NOT NULL) STRICT",
    "INSERT INTO code_salt VALUES (randomblob(16))",
)

CONVERSATIONS: Statements = (*CHATS, *POSTS, *REPLIES, *REQUESTS, *OFFERS)

MIGRATIONS: tuple[Statements, ...] = (
    (*INBOX, *PEOPLE, *CONVERSATIONS),
    REQUEST_CODES,
    REQUEST_AGENTS,
    URGENT_UPDATES,
    MOVES,
)
"""The first makes a database of version 1 out of an empty one, each of the others the next version out of that before
it. A released one is never changed."""
