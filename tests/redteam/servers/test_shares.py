"""One user with more work than the agent has room for: the others' work is begun all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agent_testing import Hang, Say, ScriptedProvider
from tests.e2e.live import Runtime, eventually, fresh

SLOTS, PLACES = 4, 10


def model(request: Any) -> Any:
    return Hang(reply=Say("late")) if "slow" in request.last_user_text else Say("hello")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    settings = {"AGENT_MAX_CONCURRENT_TURNS": SLOTS, "AGENT_MAX_QUEUE": PLACES}
    with ScriptedProvider() as provider, Runtime(provider, tmp_path_factory.mktemp("shares"), **settings) as runtime:
        provider.script.replace(model)
        yield runtime


def slow(agent: Runtime, user: str) -> httpx.Response:
    return agent.chat("slow", user=user, session_id=fresh("s"), wait=0)


def sessions(agent: Runtime) -> tuple[int, int]:
    found = agent.status()["sessions"]
    return found["running"], found["queued"]


def finish(agent: Runtime) -> None:
    agent.provider.script.replace(lambda _: Say("hello"))
    agent.provider.release()
    eventually(lambda: sessions(agent) == (0, 0))
    agent.provider.script.replace(model)


def test_who_is_alone_has_all_slots_and_places(agent: Runtime) -> None:
    assert {slow(agent, "bob").status_code for _ in range(SLOTS + PLACES)} == {202}
    assert slow(agent, "bob").status_code == 429
    assert sessions(agent) == (SLOTS, PLACES)
    finish(agent)


def test_a_user_with_much_work_leaves_slots_and_places_to_others(agent: Runtime) -> None:
    assert agent.chat("hi", user="alice").json()["response"] == "hello"
    replies = [slow(agent, "bob").status_code for _ in range(SLOTS + 2 * PLACES)]
    assert replies.count(429) >= PLACES, "his share is full"
    assert agent.chat("hi", user="alice").json()["response"] == "hello", "hers is free"
    assert {slow(agent, "alice").status_code for _ in range(4)} == {202}
    agent.process.kill9()
    agent.start()
    agent.provider.script.replace(model)
    assert agent.chat("hi", user="carol", wait=60).json()["response"] == "hello", "also after a restart"
    finish(agent)
