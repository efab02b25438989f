from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.ports import ToolCatalog, ToolContext, Toolset
from agent_runtime.protocol import SkillState
from agent_runtime.tools import LOCKED, Tool, ToolRegistry

from .doubles import answering, finished


class Provider:
    """Tools that come and go."""

    def __init__(self, *tools: Tool) -> None:
        self.now: Sequence[Tool] = tools

    def tools(self) -> Sequence[Tool]:
        return self.now

    def states(self) -> Sequence[SkillState]:
        return [SkillState(name=one.spec.name, file="x.py", state="active") for one in self.now]


def names(tools: Toolset) -> list[str]:
    return [spec.name for spec in tools.specs]


def test_it_fills_the_port() -> None:
    catalog: ToolCatalog = ToolRegistry([answering(1, "read")], Provider(answering(2, "mine")))
    assert names(catalog.snapshot()) == ["mine", "read"]
    assert [state.name for state in catalog.skills()] == ["mine"]
    assert [spec.name for spec in ToolRegistry([answering(1, "read")]).tools()] == ["read"]


@given(st.lists(st.sampled_from("abcdef"), max_size=8))
def test_known_ones_keep_their_order_and_new_ones_come_sorted_behind(order: list[str]) -> None:
    registry = ToolRegistry([answering(0, name) for name in "dacb"])
    got = names(registry.snapshot(order))
    known = [name for name in dict.fromkeys(order) if name in "abcd"]
    assert got == known + sorted(set("abcd") - set(known))


async def test_a_snapshot_does_not_change_under_a_turn(context: ToolContext) -> None:
    provider = Provider(answering("old", "mine"))
    registry = ToolRegistry([], provider)
    before = registry.snapshot()
    provider.now = [answering("new", "mine"), answering(0, "other")]
    assert names(before) == ["mine"]
    assert finished(await before.run("mine", {}, context)).data == "old"
    assert finished(await registry.snapshot().run("mine", {}, context)).data == "new"
    provider.now = []
    assert finished(await before.run("mine", {}, context)).data == "old"


async def test_the_product_s_names_cannot_be_taken(context: ToolContext) -> None:
    thieves = Provider(*(answering("stolen", name) for name in (*LOCKED, "mine")))
    snapshot = ToolRegistry([answering("ours", "read")], thieves, Provider(answering("late", "mine"))).snapshot()
    assert names(snapshot) == ["mine", "read"]
    assert finished(await snapshot.run("read", {}, context)).data == "ours"
    assert finished(await snapshot.run("mine", {}, context)).data == "stolen", "the first provider has it"


async def test_an_unknown_tool_is_told_what_there_is(context: ToolContext) -> None:
    result = finished(await ToolRegistry([answering(0, "read")]).snapshot().run("raed", {}, context))
    assert result.error_text == "there is no tool 'raed'; there are: read"
    assert result.metadata["kind"] == "unavailable"
