"""The order of a session's tools only grows at its end, whatever comes and goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol import SkillState
from agent_common.protocol.authority import Authority
from agent_runtime.loop.turn.turn_tools import MAX_ORDER, TurnTools
from agent_runtime.ports import ToolContext, ToolSpec
from agent_runtime.tools import Tool, ToolRegistry

NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


async def nothing(_: Mapping[str, Any], __: ToolContext) -> None:
    return


@dataclass
class Shelf:
    names: Sequence[str] = ()
    kept: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    async def ready(self, authority: Authority) -> None:
        return

    def tools(self) -> Sequence[Tool]:
        return [Tool(ToolSpec(name, "", {"type": "object"}), nothing) for name in self.names]

    def states(self) -> Sequence[SkillState]:
        return ()

    def toolbox(self, order: Sequence[str]) -> TurnTools:
        return TurnTools(ToolRegistry([], self).snapshot(order, Authority()), order, Authority, self.kept.append)


def shown(box: TurnTools) -> list[str]:
    return [spec.name for spec in box.toolset.specs]


@given(st.lists(st.tuples(NAMES, NAMES), max_size=6))
def test_what_was_shown_before_keeps_its_place(turns: list[tuple[list[str], list[str]]]) -> None:
    shelf, order = Shelf(), tuple[str, ...]()
    for there, joining in turns:
        shelf.names = there
        box = shelf.toolbox(order)
        first = shown(box)
        assert [name for name in order if name in first] == first[: len([name for name in first if name in order])]
        shelf.names = [*there, *(name for name in joining if name not in there)]
        box.add(joining)
        assert set(shown(box)) == {*there, *joining}
        assert shown(box)[: len(first)] == first
        order = shelf.kept[-1] if shelf.kept else order
        assert shown(shelf.toolbox(order)) == shown(box)


def test_nothing_is_written_as_long_as_nothing_is_new() -> None:
    shelf = Shelf("abc")
    box = shelf.toolbox("cba")
    box.add(())
    box.add("a")
    assert (shown(box), shelf.kept) == (["c", "b", "a"], [])


def test_an_order_has_an_end() -> None:
    shelf = Shelf(["new"])
    shelf.toolbox([f"gone_{number}" for number in range(MAX_ORDER)])
    assert shelf.kept == [("new",)]
