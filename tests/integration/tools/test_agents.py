"""The agents that look and do not touch, through the real gate and with real confinement: the disk is the judge."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import Rule
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.agents import AgentDirectory
from agent_runtime.ports import HumanRequest, ToolResult

from .conftest import House

CALLS: list[tuple[str, Mapping[str, Any]]] = [
    ("write", {"path": "new", "content": "x"}),
    ("write", {"path": "file", "content": "x"}),
    ("write", {"path": ".agents/plans/../../new", "content": "x"}),
    ("write", {"path": ".agents/plans/out/new", "content": "x"}),
    ("write", {"path": ".agents/plans", "content": "x"}),
    ("write", {"path": ".agents/plans2/new", "content": "x"}),
    ("edit", {"path": "file", "old_string": "old", "new_string": "x"}),
    ("edit", {"path": ".agents/plans/out/file", "old_string": "old", "new_string": "x"}),
    ("bash", {"command": "echo x > new; rm file"}),
    ("bash", {"command": "true", "workdir": ".agents/plans"}),
    ("glob", {"pattern": "**", "path": "$(touch new)"}),
    ("grep", {"pattern": "old", "path": ".", "include": "$(touch new)"}),
    ("grep", {"pattern": "old; touch new", "path": "file"}),
    ("read", {"path": "file"}),
]


@pytest.mark.parametrize("name", ["explore", "plan"])
async def test_the_disk_stays_as_it_was(house: House, name: str) -> None:
    agent = AgentDirectory().get(name)
    assert agent is not None
    workspace = house.home.workspace
    (workspace / ".agents" / "plans").mkdir(parents=True)
    (workspace / ".agents" / "plans" / "out").symlink_to("../..")
    (workspace / "file").write_text("old")
    before = tree(workspace)
    context = replace(house.context, agent=name, authority=Authority().with_layer(agent.layer), approved=True)
    for tool, arguments in CALLS:
        await house.tools.run(tool, arguments, context)
        assert tree(workspace) == before, (tool, arguments)
    found = await house.tools.run("read", {"path": "file"}, context)
    assert isinstance(found, ToolResult)
    assert found.data["content"] == "old"
    if name == "plan":
        made = await house.tools.run("write", {"path": ".agents/plans/a/plan.md", "content": "1."}, context)
        assert isinstance(made, ToolResult)
        assert (made.type, tree(workspace)[".agents/plans/a/plan.md"]) == ("output", "1.")


async def test_a_link_that_is_swapped_in_leads_nowhere_that_the_plan_may_not_go(house: House) -> None:
    agent = AgentDirectory().get("plan")
    assert agent is not None
    plans = house.home.workspace / ".agents" / "plans"
    plans.mkdir(parents=True)
    (house.home.workspace / "src").mkdir()
    context = replace(house.context, agent="plan", authority=Authority().with_layer(agent.layer))

    def swap() -> None:
        for _ in range(100):
            shutil.rmtree(plans / "x", ignore_errors=True)
            with contextlib.suppress(FileExistsError):  # the tool was faster
                (plans / "x").symlink_to("../../src")
                (plans / "x").unlink()

    swapping = asyncio.create_task(asyncio.to_thread(swap))
    while not swapping.done():
        await house.tools.run("write", {"path": ".agents/plans/x/f", "content": "x"}, context)
    await swapping
    assert list((house.home.workspace / "src").iterdir()) == []


def tree(folder: Path) -> dict[str, str]:
    """What is there: of a file what it says, of a link where it leads."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        said = f"-> {path.readlink()}" if path.is_symlink() else "/" if path.is_dir() else path.read_text()
        found[str(path.relative_to(folder))] = said
    return found


async def test_a_yes_is_for_what_the_call_touched_when_it_was_asked_for(house: House) -> None:
    rules = (Rule(permission="read", action="ask"),)
    context = replace(house.context, authority=Authority((Layer(rules=rules),)), interactive=True)
    workspace = house.home.workspace
    (workspace / "a").write_text("harmless")
    (workspace / "b").write_text("secret")
    (workspace / "link").symlink_to("a")
    wait = await house.tools.run("read", {"path": "link"}, context)
    assert isinstance(wait, HumanRequest)
    approved = replace(context, approved=True, approved_for=wait.touches)
    assert isinstance(await house.tools.run("read", {"path": "link"}, approved), ToolResult)
    (workspace / "link").unlink()
    (workspace / "link").symlink_to("b")
    again = await house.tools.run("read", {"path": "link"}, approved)
    assert isinstance(again, HumanRequest)
    assert again.touches == ("b",)
