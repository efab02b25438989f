"""`mesh_client.search` in a skill, and the names under which agents are called: a live host and a live runtime."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_testing import Call, Say, ScriptedProvider
from tests.integration.host.live import Host as Mesh

from ..conftest import Start
from ..live import Runtime, eventually, fresh

HITS = [{"title": "One", "url": "https://example.org/one", "snippet": "first"}]
PLUGIN = """
    @skill(name="look", description="Looks it up.", parameters={"query": {"type": "string"}})
    async def look(query, *, mesh_client):
        return await mesh_client.search(query, max_results=3)

    @skill(name="look_plainly", description="The same.", parameters={"query": {"type": "string"}})
    def look_plainly(query, *, mesh_client):
        return mesh_client.search(query)
"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    folder = tmp_path_factory.mktemp("mesh")
    (folder / "found.yaml").write_text(yaml.safe_dump({"queries": {"one": HITS}, "otherwise": []}))
    with Mesh(folder / "data", MESH_SEARCH=f"recorded:{folder / 'found.yaml'}") as mesh:
        yield mesh


@pytest.fixture
def agent(start: Start, mesh: Mesh, tmp_path: Path) -> Runtime:
    skills = tmp_path / "skills"
    skills.mkdir()
    (skills / "looking.py").write_text(textwrap.dedent(PLUGIN))
    agent = start(AGENT_SKILLS_DIR=skills, AGENT_MESH_URL=mesh.url, AGENT_MESH_TOKEN=mesh.token("agent"))
    eventually(lambda: "look" in agent.get("/capabilities").json()["tools"])
    return agent


def called(agent: Runtime, provider: ScriptedProvider, name: str, session: str, **arguments: Any) -> Any:
    provider.script.replace([Call(name, arguments), Say("done")])
    [output] = agent.chat("go", session_id=session).json()["tool_outputs"]
    return output["output"]


def test_a_skill_finds_pages_by_its_host(agent: Runtime, provider: ScriptedProvider) -> None:
    for name in ("look", "look_plainly"):
        found = called(agent, provider, name, fresh("s"), query="one")
        assert found["data"] == HITS, found
    assert called(agent, provider, "look", fresh("s"), query="nothing")["data"] == []
    assert "query" in called(agent, provider, "look", fresh("s"), query=" ")


def test_a_skill_finds_nothing_that_its_agent_may_not_look_for(agent: Runtime, provider: ScriptedProvider) -> None:
    session = fresh("s")
    assert agent.chat("say:hello", session_id=session).status_code == 200
    rules = [{"permission": "web_search", "pattern": "*", "action": "deny"}]
    assert agent.http.put(f"/sessions/{session}/permissions", json={"rules": rules}).status_code == 200
    assert "forbids it" in called(agent, provider, "look", session, query="one")


def test_agents_are_called_by_the_name_that_is_advertised(agent: Runtime, provider: ScriptedProvider) -> None:
    card = agent.get("/capabilities").json()
    assert {"task", "spawn_agent"} <= {*card["tools"]}
    shapes = {one["function"]["name"]: one["function"]["parameters"] for one in card["tool_definitions"]}
    assert shapes["spawn_agent"] == shapes["task"]
    assert card["tool_sources"]["spawn_agent"] == "builtin"
    provider.script.replace(
        [Call("spawn_agent", {"subagent_type": "explore", "prompt": "go"}), Say("helped"), Say("done")]
    )
    [output] = agent.chat("go", session_id=fresh("s")).json()["tool_outputs"]
    assert output["output"]["data"]["output"] == "helped", output
    told = [tool["function"] for tool in provider.completions[-1].fields["tools"]]
    [task] = [one for one in told if one["name"] == "task"]
    assert "spawn_agent" in task["description"]
