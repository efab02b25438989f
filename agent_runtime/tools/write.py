"""`write`: a whole file, put in place at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ..ports import ToolContext, ToolSpec
from .contract import Requirements, Tool
from .files import PATH, TEXT_LIMIT, PathLocks, place, too_large

DESCRIPTION = (
    "Write a whole text file, replacing what was there; missing folders are made. Not for changing a part of a file "
    "(edit) or for binary content (bash). Readers see the old file or the new one, never half of it."
)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"path": PATH, "content": {"type": "string", "description": "The whole new content"}},
    "required": ["path", "content"],
    "additionalProperties": False,
}


def write_tool(locks: PathLocks) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        return await asyncio.to_thread(_write, arguments["path"], arguments["content"], context, locks)

    spec = ToolSpec("write", DESCRIPTION, PARAMETERS, idempotent=True)
    return Tool(spec, run, Requirements(write=("{workspace}", "{scratch}")))


def _write(path: str, content: str, context: ToolContext, locks: PathLocks) -> dict[str, Any]:
    at = place(path, context)
    data = content.encode(errors="replace")
    if len(data) > TEXT_LIMIT:
        raise too_large("content", len(data))
    with locks.hold(at.path):
        created = at.publish(data)
    return {"path": at.shown, "bytes": len(data), "created": created}
