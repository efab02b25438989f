"""`tool_search`: finds tools that are not in the model's list."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ...ports import OUTSIDE_TEXT_KEY, DeferredTools, ToolContext, ToolSpec
from ..core.contract import Output, Tool

MAX_MATCHES = 10
"""Maximum matches of a search."""
NOTHING_DEFERRED_NOTE = "every tool there is stands in your list already; choose from it"
MAX_IN_LIST = 3
"""Maximum tools of the list that a search names which finds no other."""
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


def _note(held: DeferredTools, query: str, *, found_any: bool) -> str | None:
    """Return what to say of tools in the list, so that the model does not search for them in other words."""
    if named := held.named_in_list(query):
        return f"your list has already: {', '.join(named)}"
    if found_any:
        return None
    nearest = held.search_list(query, MAX_IN_LIST)
    return f"no other tool fits; nearest in your list: {', '.join(nearest)}" if nearest else NO_MATCH_NOTE


def tool_search_tool() -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        held = context.deferred_tools
        if held is None or not held.has_any():
            return Output({"matches": [], "note": NOTHING_DEFERRED_NOTE})
        query = arguments["query"]
        found = await asyncio.to_thread(held.search, query, MAX_MATCHES)
        from_outside = any(spec.source == "mcp" for spec in found)
        context.outside_text.seen |= from_outside
        data: dict[str, Any] = {
            "matches": [{"id": spec.name, "description": spec.details or spec.description} for spec in found]
        }
        if instructions := {spec.server: spec.server_instructions for spec in found if spec.server_instructions}:
            data["servers"] = [{"name": name, "instructions": text} for name, text in instructions.items()]
        if note := await asyncio.to_thread(_note, held, query, found_any=bool(found)):
            data["note"] = note
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
