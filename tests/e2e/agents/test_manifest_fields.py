"""Each field of a manifest changes what a live agent does: none is accepted and then ignored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider
from agent_testing.provider import Recorded

from ..conftest import Start
from ..live import Runtime, assert_problem, fresh


@pytest.fixture(autouse=True)
def removed(agent: Runtime) -> Iterator[None]:
    """Leaves none of these agents to the tests that share the server."""
    yield
    for file in (agent.data_dir / "agents").glob("*.json"):
        file.unlink()


def write(agent: Runtime, file: str, /, **fields: Any) -> None:
    """Puts an agent into the folder."""
    folder = agent.data_dir / "agents"
    folder.mkdir(exist_ok=True)
    (folder / f"{file}.json").write_text(json.dumps({"mode": "all", "permissions": {"*": "allow"}, **fields}))


def asked(agent: Runtime, name: str, *steps: Any) -> list[Recorded]:
    """What the model was asked in a chat with that agent."""
    agent.provider.clear()
    agent.provider.script.replace([*steps, Say("done")])
    assert agent.chat("go", session_id=fresh("s"), agent=name).status_code == 200
    return agent.provider.completions


def card(agent: Runtime, name: str) -> dict[str, Any]:
    return next(one for one in agent.get("/capabilities").json()["agents"] if one["name"] == name)


def check_end(agent: Runtime, name: str, call: Call, state: str) -> None:
    """One call that the agent makes ends in this state."""
    agent.provider.script.replace([call, Say("done")])
    (output,) = agent.chat("go", session_id=fresh("s"), agent=name).json()["tool_outputs"]
    assert output["state"] == state, output


def helper(agent: Runtime, name: str) -> Any:
    """The envelope's data of a call of that agent by another one."""
    call = Call("task", {"subagent_type": name, "prompt": "help"})
    agent.provider.script.replace([call, Say("helped"), Say("done")])
    return agent.chat("go", session_id=fresh("s")).json()["tool_outputs"][0]["output"]


def name(agent: Runtime) -> None:
    write(agent, "file-name", name="own-name")
    assert len(asked(agent, "own-name")) == 1
    assert_problem(agent.chat("go", agent="file-name"), 422, "invalid_request", "agent")


def description(agent: Runtime) -> None:
    write(agent, "described", description="Counts sheep.")
    assert card(agent, "described")["description"] == "Counts sheep."


def mode(agent: Runtime) -> None:
    write(agent, "hidden", mode="subagent")
    assert_problem(agent.chat("go", agent="hidden"), 422, "invalid_request", "agent")
    assert helper(agent, "hidden")["data"]["output"] == "helped"


def model(agent: Runtime) -> None:
    write(agent, "other-model", model="priced")
    assert asked(agent, "other-model")[0].fields["model"] == "priced"


def tools(agent: Runtime) -> None:
    write(agent, "few-tools", tools=["read", "glob"])
    assert asked(agent, "few-tools")[0].tool_names == ["glob", "read"]


def permissions(agent: Runtime) -> None:
    write(agent, "careful", permissions={"*": "allow", "glob": "deny"})
    check_end(agent, "careful", Call("glob", {"pattern": "*"}), "output-error")
    check_end(agent, "careful", Call("bash", {"command": "true"}), "output-available")


def grant(agent: Runtime) -> None:
    call = Call("write", {"path": "granted.txt", "content": "x"})
    write(agent, "reader", grant={"fs": {"read": ["{workspace}"], "write": []}})
    check_end(agent, "reader", call, "output-error")
    write(agent, "writer", grant={"fs": {"read": ["{workspace}"], "write": ["{workspace}"]}})
    check_end(agent, "writer", call, "output-available")


def inspectable(agent: Runtime) -> None:
    write(agent, "seen", inspectable=True)
    write(agent, "unseen", inspectable=False)
    assert "session_id" in helper(agent, "seen")["data"]
    assert "session_id" not in helper(agent, "unseen")["data"]


def max_steps(agent: Runtime) -> None:
    write(agent, "short", max_steps=2)
    requests = asked(agent, "short", Call("glob", {"pattern": "a"}), Say("at its end"))
    assert [request.fields["tool_choice"] for request in requests] == ["auto", "none"]


def temperature(agent: Runtime) -> None:
    write(agent, "cool", temperature=0.125)
    write(agent, "plain")
    assert asked(agent, "cool", Call("glob", {"pattern": "a"}))[-1].fields["temperature"] == 0.125
    assert "temperature" not in asked(agent, "plain")[0].fields


def prompt(agent: Runtime) -> None:
    write(agent, "pirate", prompt="Speak like a pirate.")
    assert "Speak like a pirate." in asked(agent, "pirate")[0].messages[0]["content"]


CHECKS: dict[str, Callable[[Runtime], None]] = {
    check.__name__: check
    for check in (
        *(name, description, mode, model, tools, permissions),
        *(grant, inspectable, max_steps, temperature, prompt),
    )
}


def test_there_is_a_check_for_each_field(agent: Runtime) -> None:
    write(agent, "faulty", no_such_field=1)
    fault = next(one["error"] for one in agent.get("/capabilities").json()["agents"] if one["name"] == "faulty.json")
    (agent.data_dir / "agents" / "faulty.json").unlink()
    assert set(fault.partition("there are: ")[2].split(", ")) == set(CHECKS)


@pytest.mark.parametrize("field", sorted(CHECKS))
def test_the_field_changes_what_the_agent_does(agent: Runtime, field: str) -> None:
    CHECKS[field](agent)


@pytest.mark.parametrize("inspectable", [False, True])
def test_the_temperature_of_a_subagent_is_its_own(agent: Runtime, inspectable: bool) -> None:
    write(agent, "cool", temperature=0.125, inspectable=inspectable)
    agent.provider.clear()
    helper(agent, "cool")
    assert [request.fields.get("temperature") for request in agent.provider.completions] == [None, 0.125, None]


@pytest.mark.slow
def test_the_temperature_holds_for_a_task_and_over_lives(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    write(agent, "cool", temperature=0.125)
    provider.script.replace([Call("glob", {"pattern": "*"}), Hang(after=0, reply=Say("never"))])
    task_id = agent.assign(agent="cool", timeout=60)
    provider.wait_for(2)
    agent.process.kill9()
    provider.script.replace([Say("done")])
    agent.start()
    assert agent.result(task_id)["status"] == "complete"
    assert [request.fields.get("temperature") for request in provider.completions] == [0.125] * 3
