"""`edit`: one exact text in a file for another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

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
from .replacement import Replaced, replace_text
from .text_encoding import HEAD_SIZE, is_utf8, utf16_of

KINDS: tuple[Kind, ...] = ("read", "write")

DESCRIPTION = (
    "Replace old_string by new_string in a text file. old_string must match exactly, spaces included, and occur once "
    "unless replace_all is set; otherwise the file is left as it was. The file keeps its own line ends and its own "
    "form of quotes and accents. Not for new files (write)."
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
_executor = ThreadPoolExecutor(4, "edit")
"""Files that are changed at once: each is held in memory as it was and as it will be."""


def edit_tool(locks: PathLocks, quota: QuotaCheck, backups: FileBackups) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        path = resolve_path(arguments["path"], context).path
        grown = len(arguments["new_string"].encode(errors="replace"))
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
        done = _replace(data, arguments, at.shown)
        if len(done.data) > TEXT_LIMIT:
            raise too_large_error(f"{at.shown} after the edit", len(done.data))
        with backing_up(backups, at, done.data, context) as kept:
            at.write_atomically(done.data)
    lines = {"lines_added": done.lines_added, "lines_removed": done.lines_removed}
    return Output({"path": at.shown, "occurrences": done.count, **lines}, metadata=kept.metadata())


def _replace(data: bytes, arguments: Mapping[str, Any], shown: str) -> Replaced:
    """Return the changed file. Raises ToolFailure."""
    old = arguments["old_string"]
    new = arguments["new_string"]
    every = arguments.get("replace_all", False)
    encoding = utf16_of(data[:HEAD_SIZE])
    if encoding is None:
        if not new.isascii() and old.isascii() and not is_utf8(data):
            raise ToolFailure(
                f"{shown} is not UTF-8, as which new_string would be written; use ASCII in it, or convert the file "
                "with bash first",
                kind="invalid",
            )
        return replace_text(data, old, new, every=every, shown=shown)
    try:
        content = encoding.to_utf8(data)
    except UnicodeDecodeError:
        raise ToolFailure(f"{shown} is not valid UTF-16, as which it is marked", kind="invalid") from None
    done = replace_text(content, old, new, every=every, shown=shown)
    return replace(done, data=encoding.from_utf8(done.data))
