"""An agent that extends itself: it writes a skill, mends it, uses it at once and after a restart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider

from ..chat.test_events import Watcher, watch
from ..conftest import Start
from ..live import Runtime, eventually, fresh

WRONG = """
@skill
def gini(values: list[float]) -> float:
    \"\"\"The Gini coefficient of some values.\"\"\"
    ordered = sorted(values)
    return sum(rank * value for rank, value in enumerate(ordered)) / totl
"""
RIGHT = """
@skill
def gini(values: list[float]) -> float:
    \"\"\"The Gini coefficient of some values.\"\"\"
    ordered, n = sorted(values), len(values)
    weighted = sum(rank * value for rank, value in enumerate(ordered, 1))
    return round(2 * weighted / (n * sum(ordered)) - (n + 1) / n, 4)
"""
VALUES = {"values": [1, 2, 3, 10]}


def outputs(reply: dict[str, Any]) -> list[Any]:
    return [one["output"] for one in reply["tool_outputs"]]


def write_it(agent: Runtime, session: str) -> dict[str, Any]:
    test = {"arguments": VALUES, "expect": 0.4375}
    agent.provider.script.replace([
        Call("create_skill", {"name": "gini", "code": WRONG, "test": test}),
        Call("create_skill", {"name": "gini", "code": RIGHT, "test": test}),
        Call("gini", VALUES),
        Say("The Gini coefficient is 0.4375."),
    ])  # fmt: skip
    reply = agent.chat("How unequal are 1, 2, 3 and 10?", session_id=session)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_skill_is_written_mended_used_at_once_and_after_a_restart(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    session = fresh("s")
    first, second, used = write_it(agent, session)["tool_outputs"]
    assert first["state"] == "output-error"
    assert "test: gini failed: gini.py line 6 in gini: NameError: name 'totl' is not defined" in json.dumps(first)
    assert second["output"]["data"]["test"] == {"skill": "gini", "result": 0.4375}
    assert used["output"]["data"] == 0.4375
    before, _, after, last = (request.tool_names for request in provider.requests[-4:])
    assert ("gini" in before, after, last) == (False, [*before, "gini"], [*before, "gini"])

    card = agent.get("/capabilities").json()
    assert {"name": "gini", "file": "gini.py", "version": 1, "state": "active", "error": None} in card["skills"]
    assert card["tool_sources"]["gini"] == "custom"

    agent.process.kill9()
    agent.start()
    provider.script.replace([Call("gini", VALUES), Say("again")])
    reply = agent.chat("And again?", session_id=session).json()
    assert outputs(reply)[0]["data"] == 0.4375
    assert provider.requests[-1].tool_names == [*before, "gini"]  # the place it joined in, also for a later life


@pytest.mark.slow
def test_who_may_not_author_is_told_so(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    call = Call("create_skill", {"name": "gini", "code": RIGHT})
    provider.script.replace([call, Say("no")])
    reply = agent.chat("go", session_id=fresh("s"), agent="explore").json()
    assert "explore does not have it" in json.dumps(outputs(reply)) or "create_skill" in json.dumps(reply)
    assert "create_skill" not in provider.requests[-1].tool_names
    session = fresh("s")
    agent.chat("hello", session_id=session)
    rules = {"rules": [{"permission": "skills.author", "pattern": "gini", "action": "deny"}]}
    assert agent.http.put(f"/sessions/{session}/permissions", json=rules).status_code == 200
    provider.script.replace([call, Call("create_skill", {"name": "other", "code": RIGHT}), Say("no")])
    denied, allowed = agent.chat("go", session_id=session).json()["tool_outputs"]
    assert (denied["state"], allowed["state"]) == ("output-error", "output-available")


def test_a_save_by_hand_joins_the_next_turn_and_an_error_is_told_to_watchers(
    start: Start, provider: ScriptedProvider
) -> None:
    agent = start()
    skills = agent.data_dir / "skills"
    with watch(agent) as response:
        events = Watcher(response)
        (skills / "gini.py").write_text(RIGHT)
        eventually(lambda: "gini" in agent.get("/capabilities").json()["tools"])
        provider.script.replace([Call("gini", VALUES), Say("done")])
        assert outputs(agent.chat("go", session_id=fresh("s")).json())[0]["data"] == 0.4375
        (skills / "gini.py").write_text("def f(:\n")
        eventually(lambda: any("error" in one for one in agent.get("/capabilities").json()["skills"]))
        provider.script.replace([Call("gini", VALUES), Say("done")])
        assert outputs(agent.chat("go", session_id=fresh("s")).json())[0]["data"] == 0.4375
        told = [events.next() for _ in range(6)]
    assert agent.get("/capabilities").json()["skills"][0]["error"].startswith("gini.py line 1: SyntaxError")
    changes = [one for one in told if one["type"] == "skills-changed"]
    assert [(one["skills"][0]["state"], one.get("error", "")[:26]) for one in changes] == [
        ("active", ""),
        ("active", "gini.py line 1: SyntaxErro"),
    ]
