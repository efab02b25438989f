"""The agents of the product: those that look may not touch, with any tool and any arguments."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_common.net import WebClient
from agent_common.protocol import ANY_PROGRAM, Folders, RequirementSet
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.agents import AgentDirectory
from agent_runtime.errors import ToolFailure
from agent_runtime.learnings import NoLearnings
from agent_runtime.memory import NoMemory
from agent_runtime.ports import ToolContext, ToolSpec
from agent_runtime.sandbox import Confinement
from agent_runtime.skills import SkillManager, authoring_tools
from agent_runtime.tools import LOCKED_TOOL_NAMES, Tool, ToolRegistry, builtin_tools
from agent_runtime.tools.core.permissions import PermissionCheck
from agent_runtime.tools.core.verdict import Verdict

AGENTS = AgentDirectory()
LOOKING = {"read", "glob", "grep", "web_fetch", "web_search", "skill", "todo", "tool_search", "memory_search"} & {
    *LOCKED_TOOL_NAMES,
    "memory_search",
}
EVERYTHING = RequirementSet.model_validate({"fs": {"read": ["/"], "write": ["/"]}, "shell": [ANY_PROGRAM]})


async def never(*_: Any) -> Any:
    raise AssertionError


def skill(name: str, requires: RequirementSet) -> Tool:
    return Tool(ToolSpec(name, "A skill.", {"type": "object"}, source="custom"), never, requires)


TOOLS = {
    tool.spec.name: tool
    for tool in (
        *builtin_tools(
            Confinement(None),
            egress=WebClient(),
            callable_agents=[("explore", "Looks.")],
            learnings=NoLearnings(),
            memory=NoMemory(),
        ),
        *authoring_tools(cast("SkillManager", None)),
        skill("harmless", RequirementSet()),
        skill("mighty", EVERYTHING),
        skill("read_more", RequirementSet(fs=Folders(write=["{workspace}"]))),
    )
}


def authority(name: str) -> Authority:
    agent = AGENTS.get(name)
    assert agent is not None
    return Authority().with_layer(agent.layer)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A workspace full of traps, and a scratch folder."""
    at = tmp_path_factory.mktemp("house").resolve()
    workspace, scratch = at / "workspace", at / "scratch"
    (workspace / ".agents" / "plans" / "deep").mkdir(parents=True)
    (workspace / "src").mkdir()
    scratch.mkdir()
    for name, target in {"out": "..", "up": "../../src", "root": "/", "away": "../plans-old"}.items():
        (workspace / ".agents" / "plans" / name).symlink_to(target)
    (workspace / "plans").symlink_to(".agents/plans")
    (workspace / ".agents" / "plans-old").mkdir()
    return workspace, scratch


def context(house: tuple[Path, Path], agent: str) -> ToolContext:
    workspace, scratch = house
    return ToolContext("ses_1", "call_1", workspace, scratch, agent=agent, authority=authority(agent), interactive=True)


def verdict(tool: Tool, arguments: dict[str, Any], at: ToolContext) -> Verdict:
    try:
        return asyncio.run(PermissionCheck().check(tool, arguments, at))
    except ToolFailure as failure:
        return Verdict("deny", failure.message)


steps = st.sampled_from(
    ("", ".", "..", ".agents", "plans", "plan.md", "deep", "out", "up", "root", "away", "plans-old", "src", "*", "?")
)
starts = st.sampled_from(("", "/", ".agents/plans/", "{workspace}/", "~/"))
paths = st.builds("{}{}".format, starts, st.lists(steps, max_size=6).map("/".join))
anything = st.one_of(paths, st.text(max_size=20), st.sampled_from(("default", "build", "explore", "rm -rf .", "ls")))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(name=st.sampled_from(sorted(TOOLS)), data=st.data())
def test_explore_may_change_nothing_with_anything(house: tuple[Path, Path], name: str, data: st.DataObject) -> None:
    tool = TOOLS[name]
    fields = tool.spec.parameters.get("properties", {})
    arguments: dict[str, Any] = {field: data.draw(anything) for field in fields if field != "timeout_ms"}
    if "url" in arguments:
        arguments["url"] = data.draw(st.sampled_from(("http://a.org/", "https://b.org:444/x?y", "ftp://c.org")))
    found = verdict(tool, arguments, context(house, "explore"))
    if found.action != "deny":
        assert tool.spec.read_only
        assert not tool.requires.fs.write
        assert not tool.requires.shell


@pytest.mark.parametrize(
    ("agent", "offered"),
    [
        ("explore", LOOKING),
        ("plan", {*LOOKING, "write", "edit", "task", "question"}),
        ("build", set(TOOLS)),
        ("default", set(TOOLS)),
    ],
)
def test_what_an_agent_is_offered(agent: str, offered: set[str]) -> None:
    tools = ToolRegistry(tuple(TOOLS.values())).snapshot(authority=authority(agent))
    assert {spec.name for spec in tools.specs} == offered & TOOLS.keys()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tool=st.sampled_from(("write", "edit")), path=paths)
def test_plan_writes_below_its_folder_and_nowhere_else(house: tuple[Path, Path], tool: str, path: str) -> None:
    workspace, _ = house
    path = path.replace("{workspace}", str(workspace))
    found = verdict(TOOLS[tool], {"path": path}, context(house, "plan"))
    real = Path(os.path.realpath(workspace / path)) if path else workspace
    inside = real.is_relative_to(workspace / ".agents" / "plans") and real != workspace / ".agents" / "plans"
    assert found.action == ("allow" if inside else "deny")


@pytest.mark.parametrize("name", ["bash", "mighty", "harmless", "read_more", "learn", "memory_save", "memory_forget"])
@pytest.mark.parametrize("agent", ["plan", "explore"])
def test_neither_of_them_runs_anything(house: tuple[Path, Path], agent: str, name: str) -> None:
    assert verdict(TOOLS[name], {"command": "true"}, context(house, agent)).action == "deny"


def test_whoever_they_call_may_do_no_more(house: tuple[Path, Path]) -> None:
    for upper in ("plan", "explore"):
        for lower in ("default", "build", "plan", "explore"):
            agent = AGENTS.get(lower)
            assert agent is not None
            line = authority(upper).with_layer(agent.layer)
            at = ToolContext("ses_1", "call_1", *house, agent=lower, authority=line)
            assert verdict(TOOLS["bash"], {"command": "true"}, at).action == "deny"
            assert verdict(TOOLS["write"], {"path": "src/x"}, at).action == "deny"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.sampled_from(sorted(TOOLS))), st.sampled_from(("plan", "explore", "build", "default")))
def test_more_tools_give_no_more_authority(house: tuple[Path, Path], there: set[str], agent: str) -> None:
    """A tool adds what it requires; what the others may do, and which of them are offered, stays the same."""
    some = ToolRegistry([TOOLS[name] for name in sorted(there)]).snapshot(authority=authority(agent))
    every = ToolRegistry(tuple(TOOLS.values())).snapshot(authority=authority(agent))
    assert {spec.name for spec in some.specs} == {spec.name for spec in every.specs} & there
    at = context(house, agent)
    for name in there:
        arguments = {"path": "x", "command": "ls", "url": "http://a.org/", "subagent_type": "explore", "name": "pdf"}
        assert verdict(some.tools.get(name, TOOLS[name]), arguments, at) == verdict(TOOLS[name], arguments, at)


def test_a_tool_that_is_taken_away_is_gone_for_calls_that_come(house: tuple[Path, Path]) -> None:
    at = context(house, "default")
    assert verdict(TOOLS["read"], {"path": "src"}, at).action == "allow"
    narrowed = ToolContext(
        *("ses_1", "call_1", *house), agent="default", authority=at.authority.with_layer(Layer(tools=("grep",)))
    )
    found = verdict(TOOLS["read"], {"path": "src"}, narrowed)
    assert (found.action, found.reason) == ("deny", "read is refused: agent default does not have it")


def test_build_and_default_ask_for_nothing_of_the_product(house: tuple[Path, Path]) -> None:
    for agent in ("build", "default"):
        at = context(house, agent)
        for name, arguments in {
            "bash": {"command": "ls | wc"},
            "write": {"path": "a"},
            "harmless": {},
            "learn": {},
            "memory_save": {},
            "memory_search": {},
            "memory_forget": {},
        }.items():
            assert verdict(TOOLS[name], arguments, at).action == "allow"
        assert verdict(TOOLS["write"], {"path": "/etc/passwd"}, at).action == "deny"
        assert verdict(TOOLS["mighty"], {}, at).action == "deny"
