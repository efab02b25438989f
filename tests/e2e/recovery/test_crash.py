"""kill -9 in the middle of the work: the record afterwards is true, nothing is lost, and nothing is done twice."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import httpx
import psutil
import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import Runtime, assert_problem, assignment, eventually, fresh, types
from .test_shutdown import commands


def crash(agent: Runtime) -> None:
    """The process is gone at once; its database is whole, also before anybody repairs it."""
    assert agent.process.kill9() == -9
    with closing(sqlite3.connect(agent.data_dir / "agent.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def saved(agent: Runtime, text: str) -> bool:
    """Whether this much of an answer is on disk."""
    rows = agent.sql("SELECT data_json FROM chat_parts WHERE type = 'text' AND data_json LIKE ?", f"%{text}%")
    return bool(rows)


@pytest.mark.slow
def test_while_the_model_streams_and_others_wait(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_MAX_CONCURRENT_TURNS=2)
    provider.script.replace([
        Hang(after=3, reply=Say("the task said this much and no more")),
        Hang(after=3, reply=Say("the chat said this much and no more")),
    ])  # fmt: skip
    running, waiting = assignment(), [assignment(input_data={"n": n}) for n in range(3)]
    agent.post("/task", running)
    provider.wait_for(1)
    message = {"message": "go", "session_id": fresh("s"), "message_id": fresh("m")}
    agent.post("/chat", {**message, "wait": 0})
    provider.wait_for(2)
    later = {"message": "and then?", "session_id": fresh("other"), "message_id": fresh("m")}
    for body in waiting:
        assert agent.post("/task", body).json()["status"] == "queued"
    assert agent.post("/chat", {**later, "wait": 0}).json()["status"] == "queued"
    eventually(lambda: saved(agent, "the task said ") and saved(agent, "the chat said "))
    before = agent.record(running["task_id"])

    crash(agent)
    provider.clear()
    provider.script.replace(lambda asked: Say(f"answer {len(provider.completions)}"))
    agent.env["AGENT_MAX_CONCURRENT_TURNS"] = "1"
    agent.start()

    record = agent.result(running["task_id"])
    assert (record["status"], record["error_code"]) == ("complete", None)
    assert record["result"]["text"] == "answer 1"
    record = agent.record(running["task_id"])
    assert record["session_id"] == before["session_id"]
    assert record["started_at"] == before["started_at"]
    assert record["finished_at"] >= record["started_at"]
    with agent.stream("GET", f"/task/{running['task_id']}/stream") as stream:
        assert types(stream.rest())[-1] == "finish"

    said = [part.get("text", part["type"]) for part in agent.parts(record["session_id"])[-4:]]
    assert said == ["step-start", "the task said ", "data-retry", "answer 1"]

    for body in waiting:
        found = agent.result(body["task_id"])
        assert found["status"] == "complete"
    assert agent.post("/chat", later).json()["response"].startswith("answer")
    problem = assert_problem(agent.post("/chat", message), 500, "interrupted")
    assert problem["response"] == "the chat said "
    asked = [request.last_user_text for request in provider.completions]
    assert len(asked) == 5
    assert [f'"n": {n}' in text for n, text in enumerate(asked[1:4])] == [True] * 3

    for body in (running, *waiting):
        again = agent.post("/task", body)
        assert again.status_code == 200
    assert len(provider.completions) == 5
    following = agent.chat("go on", session_id=message["session_id"])
    assert following.status_code == 200
    assert "the chat said " in str(provider.completions[-1].messages)
    agent.still_works()


@pytest.mark.slow
def test_while_a_tool_runs(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace([
        Say("I start two.", calls=(
            Call("bash", {"command": "echo began > began.txt; sleep 300 & sleep 301"}, id="long"),
            Call("write", {"path": "done.txt", "content": "done"}, id="short"),
        )),
    ])  # fmt: skip
    task_id = agent.assign()
    children = eventually(lambda: commands(agent, "sleep"))
    session = agent.record(task_id)["session_id"]
    eventually(lambda: any(part.get("state") == "output-available" for part in agent.parts(session)))

    assert agent.process.kill9() == -9
    assert psutil.wait_procs(children, timeout=60)[1] == [], "processes outlived the server"
    crash_free(agent)
    provider.clear()
    provider.script.replace([Say("I see: it began.")])
    agent.start()

    record = agent.result(task_id)
    assert (record["status"], record["error_code"]) == ("complete", None)
    assert record["result"]["text"] == "I see: it began."
    calls = {part["toolCallId"]: part for part in agent.parts(session) if part["type"].startswith("tool-")}
    assert calls["long"]["state"] == "output-error"
    assert "unknown" in calls["long"]["errorText"]
    assert calls["short"]["state"] == "output-available"
    with agent.stream("GET", f"/task/{task_id}/stream") as stream:
        stream.rest()
    assert (agent.data_dir / "workspace/began.txt").read_text() == "began\n"
    [asked] = provider.completions
    assert "outcome unknown" in str(asked.messages)
    agent.still_works()


def crash_free(agent: Runtime) -> None:
    with closing(sqlite3.connect(agent.data_dir / "agent.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


@pytest.mark.slow
def test_before_the_model_says_anything(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace([Hang(), Hang()])
    body = assignment()
    message = {"message": "go", "session_id": fresh("s"), "message_id": fresh("m")}
    agent.post("/task", body)
    agent.post("/chat", {**message, "wait": 0})
    provider.wait_for(2)
    crash(agent)
    provider.clear()
    provider.script.replace([Say("at last")])
    agent.start()
    found = agent.result(body["task_id"])
    assert (found["status"], found["result"]) == ("complete", {"text": "at last"})
    assert agent.post("/task", body).status_code == 200
    assert_problem(agent.post("/chat", message), 500, "interrupted")
    with agent.stream("GET", f"/task/{body['task_id']}/stream") as stream:
        assert types(stream.rest())[-1] == "finish"
    with agent.stream("POST", "/chat/stream", message) as stream:
        assert types(stream.rest())[-1] == "finish"
    assert len(provider.completions) == 1
    agent.still_works()


def test_what_was_acknowledged_is_there_whenever_the_crash_comes(start: Start, provider: ScriptedProvider) -> None:
    """Posts come in a heap when the server dies; whatever it said yes to must be found, and run, once."""
    agent = start(AGENT_MAX_CONCURRENT_TURNS=1)
    provider.script.replace(lambda _: Say("done"))
    bodies = [assignment() for _ in range(60)]
    accepted: list[str] = []
    enough = threading.Event()

    def post(body: dict[str, Any]) -> None:
        try:
            reply = agent.post("/task", body)
        except httpx.TransportError:
            return
        if reply.status_code == 202:
            accepted.append(body["task_id"])
            if len(accepted) >= 15:
                enough.set()

    with ThreadPoolExecutor(8) as pool:
        posts = [pool.submit(post, body) for body in bodies]
        assert enough.wait(10)
        crash(agent)
        for posted in posts:
            posted.result()
    agent.start()
    assert len(accepted) >= 15
    for task_id in accepted:
        found = agent.result(task_id)
        assert found["status"] == "complete"
    again = [agent.post("/task", body).status_code for body in bodies if body["task_id"] in accepted]
    assert set(again) == {200}
    [counted] = agent.sql("SELECT count(*), count(DISTINCT task_id) FROM turns WHERE task_id IS NOT NULL")
    assert counted[0] == counted[1]


@pytest.mark.slow
def test_a_conversation_goes_on_after_crashes(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace(lambda asked: Say(f"turn {sum(m['role'] == 'user' for m in asked.messages)}"))
    for life in range(1, 3):
        assert agent.chat(f"life {life}", session_id="lasting").json()["response"] == f"turn {life}"
        crash(agent)
        agent.start()
    [first, *_] = provider.completions
    assert all(request.messages[0] == first.messages[0] for request in provider.completions)
