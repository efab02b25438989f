"""SIGTERM: no new work, running turns get their grace, and what is left over is told truthfully in the next life."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import httpx
import psutil
import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import PATIENCE, Runtime, assert_problem, assignment, eventually, fresh, in_background, text_of, types


def draining(agent: Runtime) -> bool:
    return agent.get("/readyz").json() == {"ready": False, "reasons": ["draining"]}


@pytest.mark.slow
def test_a_running_turn_finishes_within_the_grace(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace([Hang(after=1, reply=Say("all of it")) for _ in range(3)])
    task_id = agent.assign()
    chat, replies = in_background(lambda: agent.chat("go", session_id="s"))
    waiting, results = in_background(lambda: agent.get("/result", task_id=task_id, wait=30))
    provider.wait_for(2)
    with agent.stream("POST", "/chat/stream", {"message": "go", "session_id": "t"}) as stream:
        stream.until("text-delta")
        agent.sigterm()
        eventually(lambda: draining(agent))
        assert agent.http.get("/healthz").status_code == 200
        assert agent.status()["state"] == "draining"
        for path, body in (("/task", assignment()), ("/chat", {"message": "hi"}), ("/chat/stream", {"message": "hi"})):
            refused = agent.post(path, body)
            assert refused.status_code == 503
            assert_problem(refused, 503, refused.json()["code"])
            assert "retry-after" in refused.headers
        assert agent.process.returncode is None
        provider.release()
        assert text_of(stream.rest()) == "all of it"
    chat.join(PATIENCE)
    waiting.join(PATIENCE)
    assert replies[0].json()["response"] == "all of it"
    assert results[0].json()["result"] == {"text": "all of it"}
    assert agent.process.wait(5) == 0
    agent.start()
    assert agent.result(task_id)["status"] == "complete"
    agent.still_works()


def test_work_that_runs_can_be_watched_and_cancelled_during_the_grace(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace([Hang(after=1), Hang(after=1)])
    first, second = agent.assign(), agent.assign()
    provider.wait_for(2)
    agent.sigterm()
    eventually(lambda: draining(agent))
    assert agent.get("/result", task_id=first).status_code == 202
    assert agent.record(second)["status"] == "running"
    with agent.stream("GET", f"/task/{first}/stream") as stream:
        stream.until("text-delta")
        assert agent.http.post(f"/task/{first}/cancel").json()["status"] == "cancelled"
        assert types(stream.rest())[-1] == "abort"
    provider.release()
    assert agent.process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_an_idle_server_ends_at_once(start: Start) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        agent = start()
        agent.run()
        begun = time.monotonic()
        os.kill(agent.process.pid, number)
        assert agent.process.wait(5) == 0
        assert time.monotonic() - begun < 4


@pytest.mark.slow
def test_a_task_that_outlasts_the_grace_goes_on_in_the_next_life(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_DRAIN_GRACE=0.5, AGENT_MAX_CONCURRENT_TURNS=3)
    provider.script.replace([
        Hang(after=2, reply=Say("half of it")), Hang(after=2, reply=Say("half of this")),
        Call("bash", {"command": "sleep 300"}),
    ])  # fmt: skip
    task_id = agent.assign()
    provider.wait_for(1)
    body = {"message": "go", "session_id": fresh("s"), "message_id": fresh("m")}
    chat, replies = in_background(lambda: agent.post("/chat", body))
    provider.wait_for(2)
    tool_task = agent.assign()
    children = eventually(lambda: commands(agent, "sleep"))
    queued = agent.assign()
    waiting, queued_replies = in_background(lambda: agent.get("/result", task_id=queued, wait=60))
    with agent.stream("GET", f"/task/{task_id}/stream") as stream:
        stream.until("text-delta")
        begun = time.monotonic()
        agent.sigterm()
        assert agent.process.wait(5) == 0
        assert 0.5 <= time.monotonic() - begun < 4
        with pytest.raises(httpx.RemoteProtocolError):  # cut off: what is not over must not look as if it were
            stream.rest()
    gone = psutil.wait_procs(children, timeout=60)[1]
    assert gone == []
    chat.join(PATIENCE)
    waiting.join(PATIENCE)
    assert assert_problem(replies[0], 500, "interrupted")["response"] == "half of "
    assert queued_replies[0].status_code == 202

    provider.clear()
    provider.script.replace(lambda _: Say("from the next life"))
    agent.start()
    for broken_off in (task_id, tool_task):
        found = agent.result(broken_off)
        assert (found["status"], found["result"]) == ("complete", {"text": "from the next life"})
    problem = assert_problem(agent.post("/chat", body), 500, "interrupted")
    assert problem["response"] == "half of "
    [call] = [part for part in agent.parts(agent.record(tool_task)["session_id"]) if part["type"] == "tool-bash"]
    assert call["state"] == "output-error"
    assert agent.result(queued)["result"] == {"text": "from the next life"}
    assert len(provider.completions) == 3
    agent.still_works()


@pytest.mark.slow
def test_callers_are_not_kept_waiting_for_what_is_queued(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_DRAIN_GRACE=0.2, AGENT_MAX_CONCURRENT_TURNS=1)
    provider.script.replace([Hang()])
    agent.assign()
    provider.wait_for(1)
    body = {"message": "later", "session_id": fresh("s"), "message_id": fresh("m")}
    chat, replies = in_background(lambda: agent.post("/chat", body))
    eventually(lambda: agent.status()["sessions"]["queued"] == 1)
    begun = time.monotonic()
    agent.sigterm()
    chat.join(PATIENCE)
    assert time.monotonic() - begun < 4
    reply: httpx.Response = replies[0]
    assert reply.status_code == 202
    assert reply.json()["status"] == "queued"
    assert agent.process.wait(5) == 0
    provider.script.replace(lambda _: Say("in the next life"))
    agent.start()
    assert agent.post("/chat", body).json()["response"] == "in the next life"


def commands(agent: Runtime, name: str) -> list[Any]:
    """Processes of that name below the server."""
    found = psutil.Process(agent.process.pid).children(recursive=True)
    return found if any(_name(child) == name for child in found) else []


def _name(process: psutil.Process) -> str:
    """Empty for one that ended since it was listed, as a box's helpers do at any moment."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""
