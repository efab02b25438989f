"""`write`: a whole file, put in place at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agent_common.protocol import Folders, RequirementSet

from ...ports import ToolContext, ToolSpec
from ...workspace import FileBackups, PathLocks
from ..core.contract import BOTH, Output, Tool
from .paths import PATH, TEXT_LIMIT, Kind, checked, keeping, place, reach_of, too_large
from .quota import QuotaCheck

KINDS: tuple[Kind, ...] = ("write",)

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


def write_tool(locks: PathLocks, space: QuotaCheck, backups: FileBackups) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        path, size = place(arguments["path"], context).path, len(arguments["content"].encode(errors="replace"))
        async with locks.turn(path):
            await space.admit(path, size, context)
            return await asyncio.to_thread(_write, arguments, context, locks, backups)

    spec = ToolSpec("write", DESCRIPTION, PARAMETERS, idempotent=True)
    return Tool(
        spec,
        run,
        RequirementSet(fs=Folders(write=BOTH)),
        reach=reach_of(KINDS),
        answers="`path`, `bytes`, `created`",
        bounds=f"{TEXT_LIMIT // 2**20} MiB",
    )


def _write(arguments: Mapping[str, Any], context: ToolContext, locks: PathLocks, backups: FileBackups) -> Output:
    at = checked("write", KINDS, arguments["path"], context)
    data = arguments["content"].encode(errors="replace")
    if len(data) > TEXT_LIMIT:
        raise too_large("content", len(data))
    with locks.hold(at.path), keeping(backups, at, data, context) as kept:
        created = at.publish(data)
    return Output({"path": at.shown, "bytes": len(data), "created": created}, metadata=kept.metadata())
