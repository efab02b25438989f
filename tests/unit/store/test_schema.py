"""The schema as a whole: the tables of a fixed shape, and the way to it from every released one
(docs/explanation/design.md#three-tables-have-a-fixed-shape)."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.runtime import MIGRATIONS
from agent_runtime.store import Database

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").glob("schema_v*.sql"))
GUIDE = {
    "chat_sessions": [
        ("id", "TEXT", 0, None, 1),
        ("agent", "TEXT", 1, None, 0),
        ("workspace_root", "TEXT", 0, None, 0),
        ("model_json", "TEXT", 1, None, 0),
        ("parent_id", "TEXT", 0, None, 0),
        ("parent_message_id", "TEXT", 0, None, 0),
        ("permissions_json", "TEXT", 1, "'[]'", 0),
        ("metadata_json", "TEXT", 1, "'{}'", 0),
        ("prompt_tokens", "INTEGER", 1, "0", 0),
        ("completion_tokens", "INTEGER", 1, "0", 0),
        ("reasoning_tokens", "INTEGER", 1, "0", 0),
        ("cache_read", "INTEGER", 1, "0", 0),
        ("cache_write", "INTEGER", 1, "0", 0),
        ("total_tokens", "INTEGER", 1, "0", 0),
        ("cost_usd", "REAL", 1, "0", 0),
        ("created_at", "INTEGER", 1, None, 0),
        ("updated_at", "INTEGER", 1, None, 0),
        ("archived_at", "INTEGER", 0, None, 0),
    ],
    "chat_messages": [
        ("id", "TEXT", 0, None, 1),
        ("session_id", "TEXT", 1, None, 0),
        ("role", "TEXT", 1, None, 0),
        ("metadata_json", "TEXT", 1, "'{}'", 0),
        ("created_at", "INTEGER", 1, None, 0),
        ("updated_at", "INTEGER", 1, None, 0),
    ],
    "chat_parts": [
        ("id", "TEXT", 0, None, 1),
        ("message_id", "TEXT", 1, None, 0),
        ("session_id", "TEXT", 1, None, 0),
        ("index", "INTEGER", 1, None, 0),
        ("type", "TEXT", 1, None, 0),
        ("data_json", "TEXT", 1, None, 0),
        ("tool_call_id", "TEXT", 0, None, 0),
        ("tool_state", "TEXT", 0, None, 0),
        ("created_at", "INTEGER", 1, None, 0),
        ("updated_at", "INTEGER", 1, None, 0),
    ],
}
"""Name, type, NOT NULL, default and place in the primary key, as `PRAGMA table_info` tells them."""
INDEXES = {
    "chat_sessions": {("agent", "updated_at"), ("workspace_root", "updated_at"), ("parent_id",), ("archived_at",)},
    "chat_messages": {("session_id", "created_at")},
    "chat_parts": {("message_id", "index"), ("session_id",), ("tool_call_id",)},
}
CASCADES = {"chat_sessions": [], "chat_messages": ["chat_sessions"], "chat_parts": ["chat_messages"]}


def brought_up_to_date(path: Path) -> sqlite3.Connection:
    """Opens and closes a database as a server does; a look into what that made of it."""
    database = Database(path, MIGRATIONS)
    database.open()
    database.close()
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    return connection


def columns_of(connection: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row)[1:] for row in connection.execute(f"PRAGMA table_info({table})")]


def indexes_of(connection: sqlite3.Connection, table: str) -> dict[tuple[str | None, ...], bool]:
    """Columns of each index that is not a primary key's, and whether it is unique."""
    listed = connection.execute(f"PRAGMA index_list({table})").fetchall()
    return {
        tuple(row["name"] for row in connection.execute(f"PRAGMA index_info({index['name']})")): bool(index["unique"])
        for index in listed
        if index["origin"] == "c"
    }


@pytest.mark.parametrize("table", GUIDE)
def test_the_three_tables_have_their_fixed_shape(tmp_path: Path, table: str) -> None:
    with closing(brought_up_to_date(tmp_path / "agent.db")) as connection:
        assert columns_of(connection, table) == GUIDE[table]
        indexes = indexes_of(connection, table)
        parents = connection.execute(f"PRAGMA foreign_key_list({table})").fetchall()
    assert INDEXES[table] <= indexes.keys()
    assert [columns for columns, unique in indexes.items() if unique] == (
        [("message_id", "index")] if table == "chat_parts" else []
    )
    assert [(row["table"], row["to"], row["on_delete"]) for row in parents] == [
        (parent, "id", "CASCADE") for parent in CASCADES[table]
    ]


def shape(connection: sqlite3.Connection) -> dict[str, str]:
    """Every table and index by name, without the layout of its text."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    return {row["name"]: re.sub(r'[\s"]+', " ", row["sql"]) for row in found}


def rows_of(connection: sqlite3.Connection) -> dict[str, list[dict[str, Any]]]:
    connection.row_factory = sqlite3.Row
    named = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"  # the index of memory
    )
    tables = [row[0] for row in named]
    return {
        table: sorted((dict(row) for row in connection.execute(f"SELECT * FROM {table}")), key=str)  # noqa: S608
        for table in tables
    }


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_every_released_schema_becomes_todays_and_keeps_every_row(tmp_path: Path, fixture: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection:
        connection.executescript(fixture.read_text())
        before = rows_of(connection)
    with closing(brought_up_to_date(tmp_path / "agent.db")) as connection:
        after, migrated = rows_of(connection), shape(connection)
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        admitted = [row["message_id"] for row in connection.execute("SELECT message_id FROM turns ORDER BY seq")]
    with closing(brought_up_to_date(tmp_path / "new.db")) as connection:
        assert migrated == shape(connection)

    assert before.keys() <= after.keys()
    for table, rows in before.items():
        assert rows, f"a fixture without {table} tests nothing"
        kept = [{name: row[name] for name in rows[0]} for row in after[table]]
        assert sorted(kept, key=str) == rows
    in_order = sorted(before["turns"], key=lambda row: (row["created_at"], row["message_id"]))
    assert admitted == [row["message_id"] for row in in_order]


def test_no_two_migrations_have_one_number() -> None:
    numbers = sorted(one.number for one in MIGRATIONS)
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_fixtures_are_of_released_schemas() -> None:
    """From 2 on: no server ever ran with less than sessions and tasks."""
    assert [path.stem for path in FIXTURES][:1] == ["schema_v2"]
    for fixture in FIXTURES:
        number = fixture.stem.removeprefix("schema_v")
        assert f"PRAGMA user_version = {number};" in fixture.read_text()
