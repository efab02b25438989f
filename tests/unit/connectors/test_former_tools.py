"""Tools of a former list that stay where a later one breaks off."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent_common.protocol import RequirementSet
from agent_runtime.connectors.tools.tool_adapter import MAX_SCHEMAS_LENGTH, MAX_TOOLS, add_former
from agent_runtime.ports import ToolContext, ToolSpec
from agent_runtime.tools import Tool


async def run(_arguments: Mapping[str, Any], _context: ToolContext) -> Any:
    return None


def tools(prefix: str, count: int, length: int = 0) -> list[Tool]:
    schema = {"type": "object", "description": "x" * length}
    return [Tool(ToolSpec(f"{prefix}{at:04}", "", schema), run, RequirementSet()) for at in range(count)]


def test_former_tools_stay_and_a_tool_of_both_lists_is_the_new_one() -> None:
    new, former = tools("b", 2), [*tools("a", 1), *tools("b", 3)]
    found = add_former(new, former)
    assert [tool.spec.name for tool in found] == ["a0000", "b0000", "b0001", "b0002"]
    assert (found[1], found[2]) == (new[0], new[1])


def test_however_often_a_list_breaks_off_the_tools_have_the_limits_of_one() -> None:
    found: tuple[Tool, ...] = ()
    for at in range(12):
        found = add_former(tools(f"{at}_", 10, length=32_000), found)
    assert sum(len(json.dumps(tool.spec.parameters)) for tool in found) <= MAX_SCHEMAS_LENGTH
    assert len(found) > 60
    assert len(add_former(tools("a", MAX_TOOLS - 1), tools("b", 100))) == MAX_TOOLS
