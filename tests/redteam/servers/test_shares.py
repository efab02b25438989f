"""One user with more work than the agent has room for: the others come next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider
from tests.e2e.live import Runtime, eventually, fresh

SLOTS, PLACES = 4, 10
LOOKER = "description: Looks.\nmode: all\nprompt: You are the looker.\npermissions: {'*': allow}\n"


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


def test_a_user_has_all_slots_while_the_others_want_none(agent: Runtime) -> None:
    assert agent.chat("hi", user="alice").json()["response"] == "hello"
    assert {slow(agent, "bob").status_code for _ in range(SLOTS)} == {202}
    assert sessions(agent) == (SLOTS, 0)
    finish(agent)


def test_the_next_slot_is_for_who_waits_and_has_the_fewest_turns(agent: Runtime) -> None:
    names = [fresh("s") for _ in range(SLOTS + 2 * PLACES)]
    replies = [agent.chat("slow", user="bob", session_id=name, wait=0).status_code for name in names]
    assert replies.count(429) >= PLACES, "his places are taken"
    hers = fresh("s")
    waiting = agent.chat("hi", user="alice", session_id=hers, wait=0)
    assert waiting.status_code == 202, "there are places for her"
    assert agent.post(f"/chat/{names[0]}/abort", {}, **{"X-Agent-User": "bob"}).json()["aborted"]
    her = {"X-Agent-User": "alice"}
    eventually(lambda: agent.http.get(f"/sessions/{hers}", headers=her).json()["status"]["state"] == "idle")
    assert sessions(agent) == (SLOTS, PLACES - 1), "then one of his who wait was begun"
    finish(agent)


def delegate(request: Any) -> Any:
    """A model that calls an agent for each part of its message; those agents work until they are released."""
    if "You are the looker" in request.messages[0]["content"]:
        return Hang(reply=Say("seen"))
    if any(message["role"] == "tool" for message in request.messages):
        return Say("done")
    parts = request.last_user_text.split()
    return Say("", calls=tuple(Call("task", {"subagent_type": "looker", "prompt": part}) for part in parts))


def test_agents_that_agents_call_are_shared_in_the_same_way(tmp_path: Path) -> None:
    with ScriptedProvider() as provider, Runtime(provider, tmp_path / "data", AGENT_MAX_SUBAGENTS=2) as agent:
        (agent.data_dir / "agents").mkdir(exist_ok=True)
        (agent.data_dir / "agents" / "looker.yaml").write_text(LOOKER)
        provider.script.replace(delegate)

        def looked() -> list[str]:
            asked = [one for one in provider.completions if "the looker" in one.messages[0]["content"]]
            return sorted(one.last_user_text for one in asked)

        agent.chat(" ".join(f"bob-{number}" for number in range(12)), user="bob", wait=0)
        eventually(lambda: len(looked()) == 2)
        agent.chat("alice-1", user="alice", wait=0)
        eventually(lambda: any("alice-1" in one.last_user_text for one in provider.completions))
        eventually(lambda: agent.status()["sessions"]["running"] >= 2)
        for _ in range(4):  # hers may not wait for a slot yet when the first two are released
            provider.release()
            with suppress(AssertionError):
                eventually(lambda: "alice-1" in looked(), timeout=10)
                break
        assert "alice-1" in looked(), "hers came before his last"
        provider.script.replace(lambda _: Say("done"))
        provider.release()
