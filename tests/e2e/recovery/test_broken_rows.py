"""A database that is sound for SQLite and not for us: what is missing or broken is named, and holds up nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import Runtime, assert_problem, eventually, fresh
from ..server.test_start import refused

pytestmark = pytest.mark.slow


def change(agent: Runtime, statement: str, *values: object) -> None:
    """Writes into the database of an agent that does not run."""
    with closing(sqlite3.connect(agent.data_dir / "agent.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(statement, values)


def stopped(agent: Runtime) -> None:
    agent.sigterm()
    assert agent.process.wait(15) == 0


@pytest.mark.parametrize("table", ["turns", "tasks", "chat_messages"])
def test_a_missing_table_is_named_at_the_start(start: Start, table: str) -> None:
    agent = start()
    agent.provider.script.replace([Hang(reply=Say("never heard"))])
    agent.assign()
    eventually(lambda: agent.status()["sessions"]["running"] == 1)
    agent.process.kill9()
    change(agent, f"DROP TABLE {table}")
    said = refused(agent.data_dir)
    assert f"no such table: {table}" in said
    assert "docs/reference/storage.md" in said


def test_a_table_that_only_some_feature_needs_is_missed_at_the_start_too(start: Start) -> None:
    agent = start()
    stopped(agent)
    change(agent, "DROP TABLE memory_terms")
    said = refused(agent.data_dir)
    assert "no such table: memory_terms" in said
    assert "docs/reference/storage.md" in said


def test_a_folder_in_the_place_of_the_database_is_called_one(start: Start) -> None:
    agent = start()
    stopped(agent)
    for path in agent.data_dir.glob("agent.db*"):
        path.unlink()
    (agent.data_dir / "agent.db").mkdir()
    said = refused(agent.data_dir)
    assert f"{agent.data_dir / 'agent.db'} is a folder" in said


@pytest.mark.parametrize(
    ("column", "value"), [("metadata_json", "{}"), ("model_json", "[]"), ("model_json", "{broken")]
)
def test_a_broken_row_of_a_session_is_its_own(
    start: Start, provider: ScriptedProvider, column: str, value: str
) -> None:
    agent = start()
    provider.script.replace(lambda _: Say("hello"))
    broken, whole = fresh("s"), fresh("s")
    for session in (broken, whole):
        assert agent.chat("hi", session_id=session).status_code == 200
    ours = agent.get(f"/sessions/{broken}").json()["id"]
    stopped(agent)
    change(agent, f"UPDATE chat_sessions SET {column} = ? WHERE id = ?", value, ours)  # noqa: S608
    agent.start()
    for reply in (agent.get(f"/sessions/{broken}"), agent.chat("again", session_id=broken)):
        assert_problem(reply, 500, "broken_record")
    assert agent.chat("again", session_id=whole).json()["response"] == "hello"
    assert names_of(agent, 1) == [agent.get(f"/sessions/{whole}").json()["id"]], "the broken one is left out"
    if value != "{}":  # without its principal it is in nobody's list
        assert f'"session_id": "{ours}"' in agent.process.output()


def names_of(agent: Runtime, limit: int) -> list[str]:
    """Ids of all sessions that the list has, page by page."""
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = agent.get("/sessions", limit=limit, **after).json()
        found += [one["id"] for one in page["sessions"]]
        if page.get("next") is None:
            return found
        after = {"after": page["next"]}


def test_a_broken_part_ends_its_turn_and_no_other(start: Start, provider: ScriptedProvider) -> None:
    """Also at a start that would go on with it."""
    agent = start()
    provider.script.replace([Call("glob", {"pattern": "*.none"}), Hang(reply=Say("never heard"))])
    task_id = agent.assign()
    eventually(lambda: len(provider.completions) == 2)
    other = agent.assign()
    agent.process.kill9()
    [turn] = agent.sql("SELECT reply_id FROM turns WHERE task_id = ?", task_id)
    change(agent, "UPDATE chat_parts SET data_json = '{broken' WHERE message_id = ?", turn["reply_id"])
    provider.script.replace(lambda _: Say("done"))
    agent.start()
    assert agent.result(other)["result"] == {"text": "done"}
    assert "a turn cannot be read" in agent.process.output()
