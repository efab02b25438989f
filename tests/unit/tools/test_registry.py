from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol import SkillState
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.ports import ToolCatalog, ToolContext, Toolset
from agent_runtime.tools import LOCKED_TOOL_NAMES, Tool, ToolRegistry
from agent_runtime.tools.agent.tool_search import NO_MATCH_NOTE, tool_search_tool
from agent_runtime.tools.catalog.registry import MAX_DETAILS_LENGTH

from .doubles import answering, finished


class Provider:
    """Tools that come and go."""

    def __init__(self, *tools: Tool) -> None:
        self.now: Sequence[Tool] = tools

    async def ready(self, authority: Authority) -> None:
        return

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


async def test_what_a_turn_brings_in_takes_its_place_or_the_last_one(context: ToolContext) -> None:
    provider = Provider(answering("old", "mine"), answering("old", "other"))
    before = ToolRegistry([answering(0, "zip")], provider).snapshot()
    provider.now = [answering("new", name) for name in ("mine", "other", "added", "not_asked_for")]
    after = before.with_tools(("added", "mine", "missing"))
    assert names(before) == ["mine", "other", "zip"]
    assert names(after) == ["mine", "other", "zip", "added"]
    assert finished(await after.run("mine", {}, context)).data == "new"
    assert finished(await after.run("other", {}, context)).data == "old"


async def test_the_product_s_names_cannot_be_taken(context: ToolContext) -> None:
    thieves = Provider(*(answering("stolen", name) for name in (*LOCKED_TOOL_NAMES, "mine")))
    snapshot = ToolRegistry([answering("ours", "read")], thieves, Provider(answering("late", "mine"))).snapshot()
    assert names(snapshot) == ["mine", "read"]
    assert finished(await snapshot.run("read", {}, context)).data == "ours"
    assert finished(await snapshot.run("mine", {}, context)).data == "stolen", "the first provider has it"


async def test_an_unknown_tool_is_told_what_there_is(context: ToolContext) -> None:
    result = finished(await ToolRegistry([answering(0, "read")]).snapshot().run("raed", {}, context))
    assert result.error_text == "there is no tool 'raed'; there are: read"
    assert result.metadata["kind"] == "unavailable"


def foreign(*tools: str) -> Provider:
    """The tools of an MCP server."""
    made = [answering(name, name) for name in tools]
    return Provider(*(replace(tool, spec=replace(tool.spec, source="mcp")) for tool in made))


MANY = [f"docs_{number:02}" for number in range(25)]


def test_where_there_are_many_those_of_servers_are_held_back() -> None:
    registry = ToolRegistry([answering(0, "read"), tool_search_tool()], foreign(*MANY))
    assert names(registry.snapshot()) == ["read", "tool_search"]
    assert [spec.name for spec in registry.all_specs()] == sorted([*MANY, "read", "tool_search"])
    assert names(registry.snapshot(["docs_03", "read"])) == ["docs_03", "read", "tool_search"]
    few = Authority((Layer(tools=("read", "tool_search", "docs_0*")),))
    assert len(names(registry.snapshot(authority=few))) == 12
    assert len(names(ToolRegistry([answering(0, "read")], foreign(*MANY)).snapshot())) == 26, "nothing could find them"


def test_a_list_without_tool_search_shows_all_that_is_said_of_a_tool_as_far_as_there_is_room() -> None:
    servers = foreign("a", "b", "c", "d")
    sizes = {"a": MAX_DETAILS_LENGTH - 10, "b": 11, "c": 0, "d": 10}
    servers.now = [
        replace(tool, spec=replace(tool.spec, description="cut...", details="x" * sizes[tool.spec.name]))
        for tool in servers.now
    ]
    shown = [spec.description for spec in ToolRegistry([], servers).snapshot().specs]
    assert shown == ["x" * sizes["a"], "cut...", "cut...", "x" * 10]
    with_search = ToolRegistry([tool_search_tool()], servers).snapshot().specs
    assert [spec.description for spec in with_search if spec.source == "mcp"] == ["cut..."] * 4


async def test_what_is_found_joins_at_the_end_and_stays(context: ToolContext) -> None:
    registry = ToolRegistry([answering(0, "read"), tool_search_tool()], foreign(*MANY))
    before = registry.snapshot()
    result = finished(await before.run("tool_search", {"query": "docs 07"}, context))
    assert result.data["matches"][0]["id"] == "docs_07"
    assert len(result.data["matches"]) == 10
    assert result.added_tools == tuple(one["id"] for one in result.data["matches"])
    after = before.with_tools(result.added_tools)
    assert names(after) == [*names(before), *result.added_tools]
    assert names(registry.snapshot(names(after))) == names(after)
    again = finished(await after.run("tool_search", {"query": "docs 07"}, context))
    assert not {one["id"] for one in again.data["matches"]} & set(result.added_tools)


async def test_a_search_names_what_the_list_has_already(context: ToolContext) -> None:
    """So that the model does not look for other words for a tool that it can call."""
    registry = ToolRegistry([*(answering(0, name) for name in ("bash", "read")), tool_search_tool()], foreign(*MANY))
    before = registry.snapshot()
    for query, note in (
        ("bash", "your list has already: bash"),
        ("read, bash", "your list has already: read, bash"),
        ("run a command in bash", "no other tool fits; nearest in your list: bash"),
        ("quantum", NO_MATCH_NOTE),
    ):
        assert finished(await before.run("tool_search", {"query": query}, context)).data == {
            "matches": [], "note": note,
        }  # fmt: skip
    found = finished(await before.run("tool_search", {"query": "docs 07"}, context))
    assert "note" not in found.data
    again = finished(await before.with_tools(found.added_tools).run("tool_search", {"query": "docs_07"}, context))
    assert again.data["matches"], "others are named so as well"
    assert again.data["note"] == "your list has already: docs_07"


async def test_what_is_held_back_can_be_called(context: ToolContext) -> None:
    tools = ToolRegistry([answering(0, "read"), tool_search_tool()], foreign(*MANY)).snapshot()
    assert finished(await tools.run("docs_07", {}, context)).data == "docs_07"
    assert tools.spec("docs_07") is not None
    missing = finished(await tools.run("nothing", {}, context))
    assert missing.error_text == "there is no tool 'nothing'; there are: read, tool_search; tool_search finds more"
    lost = finished(await tools.run("tool_search", {"query": "quantum"}, context))
    assert lost.data == {"matches": [], "note": NO_MATCH_NOTE}
