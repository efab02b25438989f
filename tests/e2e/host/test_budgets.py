"""The host's budgets and live agents: a turn ends as its own budget would end it, and subagents count twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.integration.host.live import Host, catalog

from ..live import assignment

pytestmark = pytest.mark.slow

USED = {"prompt_tokens": 80, "completion_tokens": 20, "total_tokens": 100}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, ScriptedProvider]]:
    folder = tmp_path_factory.mktemp("budgets")
    with (
        ScriptedProvider() as provider,
        Host(folder / "data", MESH_MODELS=catalog(folder, provider), UPSTREAM_KEY="sk-1") as host,
    ):
        assert host.operator.post("/workspaces", json={"id": "ada", "team": "red"}).status_code == 201
        assert host.operator.put("/budgets/agent:ada", json={"daily_tokens": 10**6}).status_code == 201
        assert host.operator.post("/workspaces/ada/start").status_code == 200
        yield host, provider


def run(host: Host, **more: Any) -> dict[str, Any]:
    """The record of a task that has ended."""
    reply = host.operator.post("/workspaces/ada/api/task", json=assignment(**more))
    assert reply.status_code == 202, reply.text
    found = host.operator.get("/workspaces/ada/api/result", params={"task_id": reply.json()["task_id"], "wait": 60})
    return found.json()


def delegate(name: str, request: Any) -> Any:
    """A caller that asks its subagent once, and the subagent."""
    if "You are a scout" in str(request.messages[0]["content"]):
        return Say("found it", usage=USED)
    if request.messages[-1]["role"] == "tool":
        return Say("done", usage=USED)
    return Say("", calls=(Call("task", {"subagent_type": name, "prompt": "look"}),), usage=USED)


@pytest.mark.parametrize("inspectable", [True, False])
def test_a_subagent_is_charged_as_itself_and_to_its_caller(
    world: tuple[Host, ScriptedProvider], inspectable: bool
) -> None:
    host, provider = world
    folder = Path(host.operator.get("/workspaces/ada").json()["data_dir"]) / "agents"
    folder.mkdir(exist_ok=True)
    name = f"scout-{inspectable}".lower()
    scout = {
        "mode": "subagent",
        "permissions": {"*": "allow"},
        "prompt": "You are a scout.",
        "inspectable": inspectable,
    }
    (folder / f"{name}.json").write_text(json.dumps(scout))
    provider.script.replace(partial(delegate, name))
    for scope in (f"agent:ada/{name}", "agent:ada", "team:red"):
        assert host.operator.put(f"/budgets/{scope}", json={"daily_tokens": 10**6}).status_code in (200, 201)
    before = used(host)
    assert run(host)["status"] == "complete"
    after = used(host)
    assert after[f"agent:ada/{name}"] == 100
    assert after["agent:ada"] - before.get("agent:ada", 0) == after["team:red"] - before.get("team:red", 0) == 300
    ours = host.recent(agent="ada", limit=3)
    (child,) = [row for row in ours if row["subagent"] == name]
    assert child["caller_session"] in {row["session"] for row in ours if row["subagent"] is None}
    assert (child["session"] != child["caller_session"]) == inspectable
    assert {(row["team"], row["user"]) for row in ours} == {("red", "operator")}
    assert not [name for request in provider.requests for name in request.headers if name.startswith("x-agent")]


def used(host: Host) -> dict[str, int]:
    """The tokens that were used of each budget."""
    return {one["scope"]: one["today"]["tokens"] for one in host.operator.get("/budgets").json()["budgets"]}


@pytest.mark.parametrize(("limit", "said"), [("daily_tokens", "tokens"), ("monthly_usd", "cost")])
def test_a_turn_ends_as_by_its_own_budget(world: tuple[Host, ScriptedProvider], limit: str, said: str) -> None:
    host, provider = world
    provider.script.replace(None, otherwise=Call("glob", {"pattern": "*"}, text="Looking."))
    today = host.operator.get("/budgets/agent:ada").json()["today"]
    most = today["tokens"] + 1 if said == "tokens" else today["usd"] + 1
    assert host.operator.put("/budgets/agent:ada", json={limit: most}).status_code == 200
    made = len(provider.completions)
    found = run(host)
    assert (found["status"], found["error_code"], found["limit"]) == ("failed", "budget_exhausted", said)
    assert "the budget of agent:ada is used up" in found["error"]
    assert len(provider.completions) == made + 1
    turn = host.operator.post("/workspaces/ada/api/chat", json={"message": "hello", "session_id": said})
    assert turn.json()["finish_reason"] == "length", turn.text
    assert turn.json()["limit"] == said
