"""`edit`: one exact text in a file for another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ..errors import ToolFailure
from ..ports import ToolContext, ToolSpec
from .contract import Requirements, Tool
from .files import PATH, TEXT_LIMIT, PathLocks, load, place, too_large

DESCRIPTION = (
    "Replace old_string by new_string in a text file. old_string must match exactly, spaces and line ends included, "
    "and occur once unless replace_all is set; otherwise the file is left as it was. Not for new files (write)."
)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": PATH,
        "old_string": {"type": "string", "minLength": 1, "description": "The exact text to replace"},
        "new_string": {"type": "string", "description": "What to put there; may be empty"},
        "replace_all": {"type": "boolean", "description": "Replace every occurrence; default: false"},
    },
    "required": ["path", "old_string", "new_string"],
    "additionalProperties": False,
}
LINES_NAMED = 8


def edit_tool(locks: PathLocks) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        return await asyncio.to_thread(_edit, arguments, context, locks)

    spec = ToolSpec("edit", DESCRIPTION, PARAMETERS)
    return Tool(spec, run, Requirements(read=("{workspace}", "{scratch}"), write=("{workspace}", "{scratch}")))


def _edit(arguments: Mapping[str, Any], context: ToolContext, locks: PathLocks) -> dict[str, Any]:
    at = place(arguments["path"], context)
    # Bytes, so that what is not UTF-8 around the match stays as it is.
    old, new = arguments["old_string"].encode(errors="replace"), arguments["new_string"].encode(errors="replace")
    if old == new:
        raise ToolFailure("new_string: is the same as old_string", kind="invalid")
    with locks.hold(at.path):
        data = load(at)
        count = data.count(old)
        if count == 0:
            raise ToolFailure(f"old_string: is not in {at.shown}; read it and copy the exact text", kind="invalid")
        if count > 1 and not arguments.get("replace_all", False):
            raise ToolFailure(
                f"old_string: occurs {count} times in {at.shown}, on lines {_lines(data, old)}; "
                "add the text around the one you mean, or set replace_all",
                kind="invalid",
            )
        changed = data.replace(old, new)
        if len(changed) > TEXT_LIMIT:
            raise too_large(f"{at.shown} after the edit", len(changed))
        at.publish(changed)
    added, removed = new.count(b"\n") + 1 if new else 0, old.count(b"\n") + 1
    return {"path": at.shown, "occurrences": count, "lines_added": added * count, "lines_removed": removed * count}


def _lines(data: bytes, text: bytes) -> str:
    numbers: list[str] = []
    position = data.find(text)
    while position >= 0 and len(numbers) < LINES_NAMED:
        numbers.append(str(data.count(b"\n", 0, position) + 1))
        position = data.find(text, position + len(text))
    return ", ".join(numbers) + (", ..." if position >= 0 else "")
