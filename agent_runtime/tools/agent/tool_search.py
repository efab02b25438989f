"""`tool_search`: finds tools that are not in the model's list."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ...ports import OUTSIDE_TEXT_KEY, ToolContext, ToolSpec
from ..core.contract import Output, Tool

MAX_MATCHES = 10
"""Maximum matches of a search."""
NOTHING_DEFERRED_NOTE = "every tool there is stands in your list already; choose from it"
NO_MATCH_NOTE = "no tool fits; try other words for what it should do"
DESCRIPTION = (
    "Find tools by what they do, among those that are not in your list, and add them to it. Use it only when no tool "
    "in your list can do what you need, or where a description ends in '...': it shows all that an MCP server says of "
    "a tool and of its use. Not for files (glob, grep) and not for the web."
)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "minLength": 1,
            "maxLength": 500,
            "description": "What the tool should do, in words",
        }
    },
    "required": ["query"],
    "additionalProperties": False,
}


def tool_search_tool() -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        held = context.deferred_tools
        if held is None or not held.has_any():
            return Output({"matches": [], "note": NOTHING_DEFERRED_NOTE})
        found = await asyncio.to_thread(held.search, arguments["query"], MAX_MATCHES)
        from_outside = any(spec.source == "mcp" for spec in found)
        context.outside_text.seen |= from_outside
        data: dict[str, Any] = {
            "matches": [{"id": spec.name, "description": spec.details or spec.description} for spec in found]
        }
        if instructions := {spec.server: spec.server_instructions for spec in found if spec.server_instructions}:
            data["servers"] = [{"name": name, "instructions": text} for name, text in instructions.items()]
        if not found:
            data["note"] = NO_MATCH_NOTE
        return Output(
            data,
            metadata={OUTSIDE_TEXT_KEY: True} if from_outside else {},  # by which a later process knows it
            added_tools=tuple(spec.name for spec in found if held.is_hidden(spec.name)),
        )

    spec = ToolSpec("tool_search", DESCRIPTION, PARAMETERS, read_only=True, idempotent=True)
    return Tool(
        spec,
        run,
        result_doc="`matches` of `id`, `description`; `servers?` of `name`, `instructions`; `note?`",
        limits_doc=f"{MAX_MATCHES} matches",
    )
