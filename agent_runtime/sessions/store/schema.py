"""The three tables of a fixed shape (docs/explanation/design.md#three-tables-have-a-fixed-shape) and our own around
them.

`turns` is the ledger of everything that was ever admitted: it gives idempotency, finds unfinished work after a
restart without a scan, and links a user message to its reply. The queue itself is the user rows with `queued_at`.
"""

from __future__ import annotations

import sqlite3

from ...store import Migration

_TABLES = (
    """
    CREATE TABLE chat_sessions (
      id TEXT PRIMARY KEY,
      agent TEXT NOT NULL,
      workspace_root TEXT,
      model_json TEXT NOT NULL,
      parent_id TEXT,
      parent_message_id TEXT,
      permissions_json TEXT NOT NULL DEFAULT '[]',
      metadata_json TEXT NOT NULL DEFAULT '{}',
      prompt_tokens INTEGER NOT NULL DEFAULT 0,
      completion_tokens INTEGER NOT NULL DEFAULT 0,
      reasoning_tokens INTEGER NOT NULL DEFAULT 0,
      cache_read INTEGER NOT NULL DEFAULT 0,
      cache_write INTEGER NOT NULL DEFAULT 0,
      total_tokens INTEGER NOT NULL DEFAULT 0,
      cost_usd REAL NOT NULL DEFAULT 0,
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL,
      archived_at INTEGER
    )
    """,
    "CREATE INDEX chat_sessions_agent ON chat_sessions (agent, updated_at)",
    "CREATE INDEX chat_sessions_workspace ON chat_sessions (workspace_root, updated_at)",
    "CREATE INDEX chat_sessions_parent ON chat_sessions (parent_id)",
    "CREATE INDEX chat_sessions_archived ON chat_sessions (archived_at)",
    """
    CREATE TABLE chat_messages (
      id TEXT PRIMARY KEY,
      session_id TEXT NOT NULL REFERENCES chat_sessions (id) ON DELETE CASCADE,
      role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system')),
      metadata_json TEXT NOT NULL DEFAULT '{}',
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL
    )
    """,
    "CREATE INDEX chat_messages_session ON chat_messages (session_id, created_at)",
    """
    CREATE TABLE chat_parts (
      id TEXT PRIMARY KEY,
      message_id TEXT NOT NULL REFERENCES chat_messages (id) ON DELETE CASCADE,
      session_id TEXT NOT NULL,
      "index" INTEGER NOT NULL,
      type TEXT NOT NULL,
      data_json TEXT NOT NULL,
      tool_call_id TEXT,
      tool_state TEXT,
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL
    )
    """,
    'CREATE UNIQUE INDEX chat_parts_message ON chat_parts (message_id, "index")',
    "CREATE INDEX chat_parts_session ON chat_parts (session_id)",
    "CREATE INDEX chat_parts_call ON chat_parts (tool_call_id)",
    "CREATE TABLE system_prompts (digest TEXT PRIMARY KEY, body TEXT NOT NULL)",
    """
    CREATE TABLE session_aliases (
      principal TEXT NOT NULL,
      alias TEXT NOT NULL,
      session_id TEXT NOT NULL REFERENCES chat_sessions (id) ON DELETE CASCADE,
      PRIMARY KEY (principal, alias)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE turns (
      message_id TEXT PRIMARY KEY REFERENCES chat_messages (id) ON DELETE CASCADE,
      session_id TEXT NOT NULL,
      reply_id TEXT NOT NULL,
      client_id TEXT,
      fingerprint TEXT NOT NULL,
      task_id TEXT,
      state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'ended')),
      outcome_json TEXT,
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE UNIQUE INDEX turns_client ON turns (session_id, client_id) WHERE client_id IS NOT NULL",
    "CREATE INDEX turns_unfinished ON turns (created_at, message_id) WHERE state != 'ended'",
)


def _create(connection: sqlite3.Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)


_LEDGER = (
    """
    CREATE TABLE turns_anew (
      seq INTEGER PRIMARY KEY,
      message_id TEXT NOT NULL UNIQUE REFERENCES chat_messages (id) ON DELETE CASCADE,
      session_id TEXT NOT NULL,
      reply_id TEXT NOT NULL,
      client_id TEXT,
      fingerprint TEXT NOT NULL,
      task_id TEXT,
      state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'waiting', 'ended')),
      done INTEGER NOT NULL DEFAULT 0,
      lives INTEGER NOT NULL DEFAULT 0,
      outcome_json TEXT,
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL
    )
    """,
    """
    INSERT INTO turns_anew (message_id, session_id, reply_id, client_id, fingerprint, task_id, state, outcome_json,
      created_at, updated_at)
    SELECT message_id, session_id, reply_id, client_id, fingerprint, task_id, state, outcome_json,
      created_at, updated_at
    FROM turns ORDER BY created_at, message_id
    """,
    "DROP TABLE turns",
    "ALTER TABLE turns_anew RENAME TO turns",
    "CREATE UNIQUE INDEX turns_client ON turns (session_id, client_id) WHERE client_id IS NOT NULL",
    "CREATE INDEX turns_unfinished ON turns (seq) WHERE state != 'ended'",
    "CREATE INDEX turns_session ON turns (session_id, seq)",
    "CREATE INDEX chat_sessions_principal"
    " ON chat_sessions (json_extract(metadata_json, '$.principal'), updated_at, id)",
)
"""`seq` is the order of admission, independent of the clock; `done` counts the model calls and tool calls that were
complete when a process last ended, and `lives` the processes in a row that completed none."""


def _add_waits_and_attempts(connection: sqlite3.Connection) -> None:
    for statement in _LEDGER:
        connection.execute(statement)


def _markers(connection: sqlite3.Connection) -> None:
    """Index the markers of compactions: few parts are markers, and loading a session looks up its latest one."""
    connection.execute("CREATE INDEX chat_parts_markers ON chat_parts (session_id) WHERE type = 'data-compaction'")


_RETENTION = (
    """
    CREATE TABLE session_retention (
      session_id TEXT PRIMARY KEY REFERENCES chat_sessions (id) ON DELETE CASCADE,
      imported_at INTEGER,
      marked_at INTEGER
    ) WITHOUT ROWID
    """,
    "CREATE INDEX session_retention_marked ON session_retention (session_id) WHERE marked_at IS NOT NULL",
    "CREATE TABLE retention_clock (id INTEGER PRIMARY KEY CHECK (id = 1), seen_at INTEGER NOT NULL,"
    " reached INTEGER NOT NULL)",
    "CREATE INDEX chat_sessions_idle ON chat_sessions (updated_at)",
    "CREATE INDEX chat_sessions_prompt ON chat_sessions (json_extract(metadata_json, '$.system_prompt_digest'))",
    "CREATE INDEX session_aliases_session ON session_aliases (session_id)",
)
"""A session has a row here if it was imported, which counts as activity, or is marked for deletion. `reached` is the
time by which sessions were last aged, and `seen_at` the wall clock's time then."""


def _retention(connection: sqlite3.Connection) -> None:
    for statement in _RETENTION:
        connection.execute(statement)


MIGRATIONS = (
    Migration(1, "sessions, messages, parts, turns", _create),
    Migration(3, "turns that wait and turns that go on, sessions by principal", _add_waits_and_attempts),
    Migration(5, "markers of compactions", _markers),
    Migration(9, "sessions that are old", _retention),
)
