"""What a call costs is what the host says with its answer, whatever the agent's list of models said before."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import ModelCard, Pricing
from agent_runtime.loop.limits.price_check import PRICE_SECONDS
from agent_testing import Call, Drop, Raw, Say, ScriptedProvider
from tests.integration.host.live import Host

from ..live import Runtime, assert_problem, assignment, fresh

pytestmark = pytest.mark.slow

PRICE = ", pricing: {input: 1000, output: 1000}"
USED = {"prompt_tokens": 90, "completion_tokens": 10}
COST = 0.1
"""Dollars for USED at that price."""
ASKING = """
from agent_runtime.skills import skill

@skill(name="ask", description="Ask.", parameters={})
async def ask(*, mesh_client=None):
    await mesh_client.embed(["question"], model="vectors")
    return await mesh_client.chat([{"role": "user", "content": "question of a skill"}])
"""


class World:
    """A host whose prices change when it starts again, and an agent that lives on meanwhile."""

    def __init__(self, folder: Path, provider: ScriptedProvider) -> None:
        self.folder, self.provider = folder, provider
        self.write(PRICE)
        self.host = Host(folder / "host", MESH_MODELS=folder / "models.yaml", MESH_RESTART="false")
        self.agent: Runtime

    def write(self, price: str) -> None:
        (self.folder / "models.yaml").write_text(
            f"providers: {{p: {{base_url: '{self.provider.url}'}}}}\n"
            f"models: {{default: {{provider: p, model: one{price}}}}}\n"
        )

    def restart(self, price: str = "") -> None:
        """Restart the host where it was, with this price of its model."""
        self.write(price)
        self.host.start()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ScriptedProvider([]) as provider:
        world = World(tmp_path, provider)
        with world.host as host:
            host.env["MESH_PORT"] = host.url.rpartition(":")[2]
            there = {"AGENT_LLM_BASE_URL": "", "AGENT_MESH_URL": host.url, "AGENT_MESH_TOKEN": host.token("a")}
            with Runtime(provider, tmp_path / "agent", AGENT_CONFINEMENT="off", **there) as world.agent:
                yield world


def cost(world: World, session: str) -> Any:
    return world.agent.chat("go", session_id=session).json()["usage"]["cost_usd"]


def test_a_price_that_the_host_has_no_more_prices_nothing(world: World) -> None:
    world.provider.script.replace(lambda _: Say("so", usage=USED))
    old, new = fresh("s"), fresh("s")
    assert cost(world, old) == pytest.approx(COST)
    world.restart()
    assert cost(world, new) is None
    found = world.agent.get(f"/sessions/{new}").json()
    assert (found["cost_usd"], found["unpriced_models"]) == (None, ["default"])
    found = world.agent.get(f"/sessions/{old}").json()
    assert (found["cost_usd"], found["unpriced_models"]) == (pytest.approx(COST), []), "as it was at its time"
    world.restart(PRICE)
    assert world.agent.get(f"/sessions/{new}").json()["cost_usd"] is None
    assert cost(world, fresh("s")) == pytest.approx(COST)


def test_a_limit_on_the_cost_is_refused_at_once_when_the_price_is_gone(world: World) -> None:
    world.provider.script.replace(lambda _: Say("so", usage=USED))
    assert world.agent.run(token_budget={"max_cost_usd": 5})["status"] == "complete"
    world.restart()
    time.sleep(PRICE_SECONDS)  # for so long the price of before is believed
    body = assignment(token_budget={"max_cost_usd": 5})
    assert_problem(world.agent.post("/task", body), 422, "unpriced_model", "token_budget.max_cost_usd")


def test_a_provider_does_not_set_the_price(world: World) -> None:
    world.restart()
    world.provider.script.replace(lambda _: Say("so", usage={**USED, "cost_usd": 0.0}))
    assert cost(world, fresh("s")) is None
    body = {"model": "default", "messages": [{"role": "user", "content": "go"}]}
    with world.host.client(world.agent.env["AGENT_MESH_TOKEN"]) as client:
        assert "cost_usd" not in client.post("/v1/chat/completions", json=body).json()["usage"]


# ---------------------------------------------------------------- a list that promises more than answers keep


def events(*bodies: Any) -> tuple[str, ...]:
    return (*(f"data: {json.dumps(body)}\n\n" for body in bodies), "data: [DONE]\n\n")


FALLBACK = Raw(
    events({"choices": [{"delta": {"content": "so"}, "finish_reason": "stop"}]}, {"choices": [], "usage": USED}),
    headers={"content-type": "text/event-stream", "x-model": "other", "x-fallback-reason": "it is away"},
)
CHILD = {"mode": "all", "permissions": {"*": "allow"}, "prompt": "You are child.", "model": "other"}
KNOWN = {**USED, "cost_usd": COST}


def paid(*calls: Call) -> Say:
    return Say("", calls=calls, usage=KNOWN)


@pytest.fixture
def listed(tmp_path: Path) -> Iterator[Runtime]:
    """An agent behind a mesh that lists a price of every model, as one did that has just lost its prices."""
    cards = [ModelCard(id=name, pricing=Pricing(input=0, output=0)) for name in ("default", "other", "vectors")]
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "ask.py").write_text(ASKING)
    with ScriptedProvider([], models=cards) as mesh:
        there = {"AGENT_LLM_BASE_URL": "", "AGENT_MESH_URL": mesh.url.removesuffix("/v1"), "AGENT_CONFINEMENT": "off"}
        with Runtime(mesh, tmp_path / "agent", AGENT_SKILLS_DIR=tmp_path / "skills", **there) as agent:
            (agent.data_dir / "agents").mkdir(exist_ok=True)
            (agent.data_dir / "agents" / "child.json").write_text(json.dumps(CHILD))
            yield agent


@pytest.mark.parametrize(
    ("steps", "calls"),
    [
        pytest.param([paid(Call("glob", {"pattern": "*"})), Say("so", usage=USED)], 2, id="its own model"),
        pytest.param([Say("", calls=(Call("glob", {"pattern": "*"}),), usage=USED)], 1, id="its first call"),
        pytest.param([FALLBACK], 1, id="a fallback"),
        pytest.param(
            [paid(Call("task", {"subagent_type": "child", "prompt": "work"})), Say("done", usage=USED)],
            2,
            id="a subagent",
        ),
        pytest.param([paid(Call("ask", {}))], 1, id="embeddings"),
    ],
)
def test_a_call_without_a_known_cost_ends_a_turn_with_a_limit(listed: Runtime, steps: list[Any], calls: int) -> None:
    listed.provider.script.replace(steps, otherwise=Say("over", usage=KNOWN))
    found = listed.run(token_budget={"max_cost_usd": 5})
    assert (found["status"], found["error_code"]) == ("failed", "unpriced_model"), found
    asked = [request for request in listed.provider.completions if "question of" not in str(request.messages[-1])]
    assert len(asked) == calls
    listed.provider.script.replace(steps, otherwise=Say("over", usage=KNOWN))
    assert listed.run(token_budget={"max_tokens": 100_000})["status"] == "complete"


def test_a_reply_of_the_mesh_is_never_priced_by_the_list(listed: Runtime) -> None:
    listed.provider.script.replace([Say("so", usage=USED), Say("so", usage=KNOWN)])
    costs = [listed.chat("go", session_id=fresh("s")).json()["usage"]["cost_usd"] for _ in range(2)]
    assert costs == [None, COST]


def test_an_answer_that_breaks_off_has_no_known_cost_and_ends_no_turn(listed: Runtime) -> None:
    listed.provider.script.replace([Drop(after=2, reply=Say("half of it"))], otherwise=Say("whole", usage=KNOWN))
    found = listed.run(token_budget={"max_cost_usd": 5}, max_retries=1)
    assert (found["status"], found["usage"]["cost_usd"]) == ("complete", None), found
