"""`todo`: the to-do list, which the model keeps in the conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ports import ToolContext, ToolSpec
from ..core.contract import Tool

MAX_ITEMS = 100
"""Maximum items in a list."""
MAX_ITEM_LENGTH = 1000
"""Maximum characters of an item."""
STATUSES = ("pending", "in_progress", "completed", "cancelled")

DESCRIPTION = (
    "Write down the steps of work that has several, and where each stands. Every call replaces the whole list, "
    "so send all items, the unchanged ones too. Use it when work has three steps or more, and again when one "
    "begins or ends. Not for notes or results, and not for work of one step."
)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "todos": {
            "type": "array",
            "maxItems": MAX_ITEMS,
            "description": "The whole list, in the order of work; an empty one clears it",
            "items": {
                "type": "object",
                "properties": {
                    "content": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": MAX_ITEM_LENGTH,
                        "description": "What is to do",
                    },
                    "status": {"type": "string", "enum": list(STATUSES), "description": "Where it stands"},
                    "id": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 100,
                        "description": "A name of your own for it",
                    },
                },
                "required": ["content", "status"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["todos"],
    "additionalProperties": False,
}


def todo_tool() -> Tool:
    # The list is only in the conversation: the arguments of the last call are the list.
    async def run(arguments: Mapping[str, Any], _: ToolContext) -> dict[str, int]:
        return {"count": len(arguments["todos"])}

    spec = ToolSpec("todo", DESCRIPTION, PARAMETERS, read_only=True, idempotent=True)
    return Tool(
        spec,
        run,
        result_doc="`count`",
        limits_doc=f"{MAX_ITEMS} items of {MAX_ITEM_LENGTH} characters; a call replaces the list",
    )
