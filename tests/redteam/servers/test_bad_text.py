"""Bytes that are no text, in every column of the tables of sessions: each breaks its own session and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_testing import Say, ScriptedProvider
from tests.e2e.live import Runtime

TABLES = {"chat_sessions": "id", "chat_messages": "session_id", "chat_parts": "session_id", "turns": "session_id"}
BAD = """CASE substr({0}, 1, 1)
  WHEN '{{' THEN substr({0}, 1, length({0}) - 1) || iif({0} = '{{}}', '', ',') || '"bad":"' || X'FFFE' || '"}}'
  WHEN '[' THEN '[{{"permission":"' || X'FFFE' || '","pattern":"*","action":"deny"}}]'
  ELSE coalesce({0}, '') || X'FFFE' END"""
"""A column's text with two such bytes in it; JSON stays JSON, as the database has indexes over parts of it."""
KEYS = {"id", "session_id", "message_id", "role", "state"}
"""A row that is not found any more breaks nothing; other rows refer to it by the first three, and the database itself
holds the others to a list."""


def text_columns(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            (table, row[1])
            for table in TABLES
            for row in connection.execute(f"PRAGMA table_info({table})")
            if row[2] == "TEXT" and row[1] not in KEYS
        ]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with ScriptedProvider() as provider, Runtime(provider, tmp_path_factory.mktemp("text")) as runtime:
        yield runtime


def test_bytes_that_are_no_text_stop_no_list_and_no_start(agent: Runtime) -> None:
    agent.provider.script.replace(lambda _: Say("hello"))
    file = agent.data_dir / "agent.db"
    columns = text_columns(file)
    assert len(columns) > 15
    sessions = {f"{table}.{column}": (table, column) for table, column in columns}
    ids = {
        name: agent.chat("hi", session_id=name).json() and agent.get(f"/sessions/{name}").json()["id"]
        for name in (*sessions, "good")
    }
    agent.process.kill9()
    with closing(sqlite3.connect(file)) as connection:
        for name, (table, column) in sessions.items():
            connection.execute(
                f"UPDATE {table} SET {column} = CAST({BAD.format(column)} AS TEXT) WHERE {TABLES[table]} = ?",  # noqa: S608
                (ids[name],),
            )
        connection.commit()
    agent.start()
    reply = agent.get("/sessions", limit=500)
    assert reply.status_code == 200, reply.text
    listed = {one["id"] for one in reply.json()["sessions"]}
    assert ids["good"] in listed
    bad = {name for name, (table, _) in sessions.items() if table == "chat_sessions"}
    assert not {name for name in bad if ids[name] in listed and "null" not in name}
    for name in sessions:
        assert agent.get(f"/sessions/{ids[name]}").status_code in (200, 404, 500)
        assert agent.get(f"/sessions/{ids[name]}/messages").status_code in (200, 404, 500)
    for path in ("/tasks", "/pending", "/schedules", "/status"):
        assert agent.get(path).status_code in (200, 404), path
    assert agent.chat("again", session_id=ids["good"]).json()["response"] == "hello"
    agent.still_works()
