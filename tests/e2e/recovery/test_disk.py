"""What an outsider reads in the database while the server works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider
from agent_testing.provider import Recorded

from ..live import SERVE, Runtime, assert_problem, assignment, eventually, fresh


def test_the_users_words_are_on_disk_before_the_model_hears_them(agent: Runtime) -> None:
    seen: list[list[dict[str, Any]]] = []

    def look(request: Recorded) -> Say:
        text = request.last_user_text
        rows = agent.sql("SELECT message_id, data_json FROM chat_parts WHERE type = 'text'")
        seen.append([json.loads(row["data_json"]) for row in rows if json.loads(row["data_json"])["text"] == text])
        return Say("ok")

    agent.provider.script.replace(look)
    agent.chat(f"remember {fresh('this')}", session_id=fresh("s"))
    agent.run(input_data={"remember": fresh("that")})
    assert [len(found) for found in seen] == [1, 1]


def test_a_task_is_on_disk_before_the_model_hears_of_it(agent: Runtime) -> None:
    seen: list[str] = []

    def look(_: Recorded) -> Say:
        seen.extend(row["task_id"] for row in agent.sql("SELECT task_id FROM tasks"))
        return Say("ok")

    agent.provider.script.replace(look)
    task_id = agent.assign()
    agent.result(task_id)
    assert task_id in seen


def test_an_answer_grows_on_disk_while_it_is_said(agent: Runtime) -> None:
    pieces = tuple(f'word "{n}" \\ \n' for n in range(60))
    agent.provider.script.replace([Say(pieces=pieces, delay=0.01)])
    task_id = agent.assign()
    session = agent.record(task_id)["session_id"]
    texts: list[str] = []

    def look() -> bool:
        found = [part for part in agent.parts(session) if part["type"] == "text"]
        if found and (not texts or texts[-1] != found[0]["text"]):
            texts.append(found[0]["text"])
        return bool(found) and found[0]["state"] == "done"

    eventually(look)
    whole = "".join(pieces)
    assert len(texts) >= 4, "it came in one piece"
    assert all(whole.startswith(text) for text in texts)
    assert texts == sorted(texts, key=len)
    assert texts[-1] == whole


def test_a_tool_call_is_on_disk_before_its_result(agent: Runtime) -> None:
    agent.provider.script.replace([Call("bash", {"command": "sleep 0.5; echo ok"}), Say("done")])
    task_id = agent.assign()
    session = agent.record(task_id)["session_id"]
    states: list[str] = []

    def look() -> bool:
        for part in agent.parts(session):
            if part["type"] == "tool-bash" and part["state"] not in states:
                states.append(part["state"])
        return "output-available" in states

    eventually(look)
    assert states[-2:] == ["input-available", "output-available"]
    assert agent.result(task_id)["status"] == "complete"  # or its last model call takes a reply of the next test


def test_the_books_of_a_session_add_up(agent: Runtime) -> None:
    session = fresh("s")
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 40}}
    agent.provider.script.replace([Say("one", usage=usage), Say("two", usage=usage)])
    replies = [agent.chat(text, session_id=session).json() for text in ("a", "b")]
    [row] = agent.sql(
        "SELECT s.* FROM chat_sessions s JOIN session_aliases a ON a.session_id = s.id WHERE a.alias = ?", session
    )
    assert row["total_tokens"] == sum(reply["tokens_used"] for reply in replies) == 240
    assert (row["prompt_tokens"], row["completion_tokens"], row["cache_read"]) == (120, 40, 80)
    assert row["archived_at"] is None
    roles = agent.sql("SELECT role FROM chat_messages WHERE session_id = ? ORDER BY created_at, id", row["id"])
    assert [found["role"] for found in roles] == ["user", "assistant"] * 2


def test_the_database_is_sound(agent: Runtime) -> None:
    assert [row[0] for row in agent.sql("PRAGMA integrity_check")] == ["ok"]
    assert agent.sql("PRAGMA foreign_key_check") == []
    assert agent.sql("PRAGMA journal_mode")[0][0] == "wal"
    for row in agent.sql("SELECT data_json FROM chat_parts"):
        json.loads(row["data_json"])


@pytest.mark.slow
def test_a_disk_that_is_full_refuses_work_and_loses_none(provider: ScriptedProvider, tmp_path: Path) -> None:
    agent = Runtime(provider, tmp_path / "data", AGENT_CONFINEMENT="off", AGENT_CONTEXT_LIMIT=10_000_000)
    agent.command = ["bash", "-c", f"ulimit -f 1000; exec {' '.join(SERVE)}"]  # no file above one megabyte
    long = {"message": "tell me much", "session_id": "s", "message_id": "long"}
    next_one = {"message": "y" * 1_000_000, "session_id": "s", "message_id": "next"}
    with agent:
        assert agent.chat("small", session_id="s").json()["response"] == "ok"
        provider.script.replace([Say(pieces=("x" * 10_000,) * 300)])
        broken = agent.post("/chat", long)
        assert_problem(broken, 500, "store_unavailable")
        asked = len(provider.completions)
        assert_problem(agent.post("/chat", next_one), 503, "store_unavailable")
        assert_problem(agent.post("/task", assignment(task_id="full", input_data=next_one)), 503, "store_unavailable")
        assert len(provider.completions) == asked, "nothing runs that is not on disk"
        assert agent.status()["state"] == "idle"
        assert agent.process.terminate() == 0

        agent.command = SERVE
        provider.script.replace(lambda _: Say("room again"))
        agent.start()
        assert [row[0] for row in agent.sql("PRAGMA integrity_check")] == ["ok"]
        assert_problem(agent.get("/task/full"), 404, "unknown_task")
        assert_problem(agent.post("/chat", long), 500, "interrupted")
        assert agent.post("/chat", next_one).json()["response"] == "room again"
        assert "small" in str(provider.completions[-1].messages)
