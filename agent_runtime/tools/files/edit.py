"""`edit`: one exact text in a file for another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from ...context import unescape
from ...errors import ToolFailure
from ...ports import ToolContext, ToolSpec
from ...workspace import FileBackups, PathLocks
from ..core.contract import WRITE_REQUIREMENTS, Output, Tool
from .paths import (
    PATH_PARAMETER,
    TEXT_LIMIT,
    Kind,
    authorize_path,
    backing_up,
    describe_path_access,
    read_bounded,
    resolve_path,
    too_large_error,
)
from .quota import QuotaCheck

KINDS: tuple[Kind, ...] = ("read", "write")

DESCRIPTION = (
    "Replace old_string by new_string in a text file. old_string must match exactly, spaces and line ends included, "
    "and occur once unless replace_all is set; otherwise the file is left as it was. Not for new files (write)."
)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": PATH_PARAMETER,
        "old_string": {"type": "string", "minLength": 1, "description": "The exact text to replace"},
        "new_string": {"type": "string", "description": "What to put there; may be empty"},
        "replace_all": {"type": "boolean", "description": "Replace every occurrence; default: false"},
    },
    "required": ["path", "old_string", "new_string"],
    "additionalProperties": False,
}
MAX_LINES_NAMED = 8
_executor = ThreadPoolExecutor(4, "edit")
"""Files that are changed at once: each is held in memory as it was and as it will be."""


def edit_tool(locks: PathLocks, quota: QuotaCheck, backups: FileBackups) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        path, grown = (
            resolve_path(arguments["path"], context).path,
            len(arguments["new_string"].encode(errors="replace")),
        )
        async with locks.async_lock(path):
            await quota.require_space(path, grown, context)
            changing = partial(_edit, arguments, context, locks, backups)
            return await asyncio.get_running_loop().run_in_executor(_executor, changing)

    spec = ToolSpec("edit", DESCRIPTION, PARAMETERS)
    return Tool(
        spec,
        run,
        WRITE_REQUIREMENTS,
        describe_access=describe_path_access(KINDS),
        result_doc="`path`, `occurrences`, `lines_added`, `lines_removed`",
        limits_doc=f"{TEXT_LIMIT // 2**20} MiB before and after",
    )


def _edit(arguments: Mapping[str, Any], context: ToolContext, locks: PathLocks, backups: FileBackups) -> Output:
    at = authorize_path("edit", KINDS, arguments["path"], context)
    # Bytes, so that what is not UTF-8 around the match stays as it is.
    if arguments["old_string"] == arguments["new_string"]:
        raise ToolFailure("new_string: is the same as old_string", kind="invalid")
    with locks.thread_lock(at.path):
        data = read_bounded(at)
        old, new = _encode_replacement(data, arguments["old_string"], arguments["new_string"])
        count = data.count(old)
        if count == 0:
            raise ToolFailure(f"old_string: is not in {at.shown}; read it and copy the exact text", kind="invalid")
        if count > 1 and not arguments.get("replace_all", False):
            raise ToolFailure(
                f"old_string: occurs {count} times in {at.shown}, on lines {_line_numbers(data, old)}; "
                "add the text around the one you mean, or set replace_all",
                kind="invalid",
            )
        changed = data.replace(old, new)
        if len(changed) > TEXT_LIMIT:
            raise too_large_error(f"{at.shown} after the edit", len(changed))
        with backing_up(backups, at, changed, context) as kept:
            at.write_atomically(changed)
    added, removed = new.count(b"\n") + 1 if new else 0, old.count(b"\n") + 1
    lines = {"lines_added": added * count, "lines_removed": removed * count}
    return Output({"path": at.shown, "occurrences": count, **lines}, metadata=kept.metadata())


def _encode_replacement(data: bytes, old: str, new: str) -> tuple[bytes, bytes]:
    """What is to be replaced by what. The model sees characters that are unseen otherwise as escapes, and copies them
    so: where the text itself is not in the file, they stand for those characters, also where the new text repeats
    them."""
    exact = old.encode(errors="replace")
    if exact not in data and (true := unescape(old)) != old and true.encode(errors="replace") in data:
        return true.encode(errors="replace"), unescape(new, only=true).encode(errors="replace")
    return exact, new.encode(errors="replace")


def _line_numbers(data: bytes, text: bytes) -> str:
    numbers: list[str] = []
    position = data.find(text)
    while position >= 0 and len(numbers) < MAX_LINES_NAMED:
        numbers.append(str(data.count(b"\n", 0, position) + 1))
        position = data.find(text, position + len(text))
    return ", ".join(numbers) + (", ..." if position >= 0 else "")
