"""Many at once: one session after the other, sessions beside each other, all in the order in which they came."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil
import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import PATIENCE, TOKEN, Runtime, eventually, fresh, in_background

ABORT_SECONDS = 0.2
"""From the request to the `abort` chunk; on an idle machine it is a tenth of that."""


def post_all(agent: Runtime, bodies: list[dict[str, Any]], threads: int) -> list[httpx.Response]:
    with (
        agent.client(Authorization=f"Bearer {TOKEN}") as client,
        ThreadPoolExecutor(threads) as pool,
    ):
        return list(pool.map(lambda body: client.post("/chat", json=body), bodies))


def admitted(agent: Runtime, names: set[str]) -> list[str]:
    rows = agent.sql("SELECT client_id FROM turns ORDER BY seq")
    return [row["client_id"] for row in rows if row["client_id"] in names]


def test_fifty_at_once_to_one_session_run_one_after_the_other(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace([], otherwise=lambda asked: Say(f"re {asked.last_user_text}"))
    bodies = [{"message": f"m{n}", "message_id": f"m{n}", "session_id": "one"} for n in range(50)]
    replies = post_all(agent, bodies, 50)
    assert [reply.status_code for reply in replies] == [200] * 50
    assert [reply.json()["response"] for reply in replies] == [f"re m{n}" for n in range(50)]
    order = admitted(agent, {f"m{n}" for n in range(50)})
    assert len(order) == 50
    asked = provider.completions
    assert [request.last_user_text for request in asked] == order
    for number, request in enumerate(asked):  # each one has seen the end of all before it
        assert request.texts == [text for name in order[:number] for text in (name, f"re {name}")] + [order[number]]


def test_two_hundred_sessions_share_four_slots_in_the_order_in_which_they_came(
    start: Start, provider: ScriptedProvider
) -> None:
    agent = start(AGENT_MAX_CONCURRENT_TURNS=4, AGENT_MAX_QUEUE=300)
    gate = fresh("gate")
    provider.script.replace([Hang(reply=Say("ok"))] * 4, otherwise=Say("ok"))
    names = [f"m{n}" for n in range(200)]
    bodies = [{"message": name, "message_id": name, "session_id": f"{gate}-{name}", "wait": 0} for name in names]
    replies = post_all(agent, bodies, 16)
    assert {reply.status_code for reply in replies} == {202}
    provider.wait_for(4)
    assert agent.status()["sessions"] == {"running": 4, "queued": 196, "waiting": 0}
    assert len(provider.completions) == 4
    provider.release()
    eventually(lambda: agent.status()["state"] == "idle", 40)
    order = {name: place for place, name in enumerate(admitted(agent, set(names)))}
    started = [request.last_user_text for request in provider.completions]
    assert sorted(started) == sorted(names)
    assert max(abs(order[name] - place) for place, name in enumerate(started)) <= 8
    states = agent.sql("SELECT state, count(*) AS n FROM turns GROUP BY state")
    assert [(row["state"], row["n"]) for row in states] == [("ended", 200)]


@pytest.mark.slow
@pytest.mark.machine
@pytest.mark.parametrize("at", ["model", "tool"])
def test_an_abort_reaches_what_runs_at_once(agent: Runtime, at: str) -> None:
    seconds = f"31{time.monotonic_ns() % 10**6:06}"
    commands = f"sleep {seconds} & sleep {seconds}; wait"
    step = Hang(after=2) if at == "model" else Call("bash", {"command": commands})
    agent.provider.script.replace([step])
    session = fresh("s")
    with agent.stream("POST", "/chat/stream", {"message": "go", "session_id": session}) as stream:
        stream.until("text-delta" if at == "model" else "tool-input-available")
        if at == "tool":
            eventually(lambda: len(_sleeping(seconds)) == 2)

        def ended() -> float:
            stream.until("abort")
            return time.monotonic()

        reading, got = in_background(ended)
        with agent.client(Authorization=f"Bearer {TOKEN}") as other:
            other.get("/healthz")  # the connection is there
            began = time.monotonic()
            reply = other.post(f"/chat/{session}/abort")
        reading.join(PATIENCE)
        assert got[0] - began < ABORT_SECONDS
        assert reply.json()["aborted"] is True
        assert stream.next() is None
    if at == "tool":
        eventually(lambda: not _sleeping(seconds), 2.0)
    detail = agent.get(f"/sessions/{session}").json()
    assert detail["status"]["state"] == "idle"
    agent.still_works()


def _sleeping(seconds: str) -> list[int]:
    return [one.pid for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", seconds]]
