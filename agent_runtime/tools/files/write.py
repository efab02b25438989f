"""`write`: a whole file, put in place at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agent_common.json_document import json_document
from agent_common.protocol import Folders, RequirementSet

from ...errors import ToolFailure
from ...ports import ToolContext, ToolSpec
from ...workspace import FileBackups, PathLocks, SafePath
from ..core.contract import WORKSPACE_AND_SCRATCH, Output, Tool
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
from .text_encoding import HEAD_SIZE, encoded_as, has_cr_lf_only, is_utf8, utf16_of

KINDS: tuple[Kind, ...] = ("write",)

DESCRIPTION = (
    "Write a whole text file, replacing what was there; missing folders are made. Not for changing a part of a file "
    "(edit) or for binary content (bash). Readers see the old file or the new one, never half of it."
)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"path": PATH_PARAMETER, "content": {"type": "string", "description": "The whole new content"}},
    "required": ["path", "content"],
    "additionalProperties": False,
}
_JSON_FILES = (".json", ".jsonc", ".json5", ".jsonld", ".geojson", ".ipynb", ".map", ".webmanifest")


def write_tool(locks: PathLocks, quota: QuotaCheck, backups: FileBackups) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        path = resolve_path(arguments["path"], context).path
        content = arguments["content"]
        size = len(content.encode(errors="replace")) + content.count("\n")  # each may become CR LF
        async with locks.async_lock(path):
            await quota.require_space(path, size, context)
            return await asyncio.to_thread(_write, arguments, context, locks, backups)

    spec = ToolSpec("write", DESCRIPTION, PARAMETERS, idempotent=True)
    return Tool(
        spec,
        run,
        RequirementSet(fs=Folders(write=WORKSPACE_AND_SCRATCH)),
        describe_access=describe_path_access(KINDS),
        adapt=_adapt,
        result_doc="`path`, `bytes`, `created`, `line_ends?`",
        limits_doc=f"{TEXT_LIMIT // 2**20} MiB",
    )


def _adapt(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments with the text of a JSON file that a model has given as its value."""
    content = arguments.get("content")
    if not isinstance(content, dict | list):
        return arguments
    if not str(arguments.get("path")).lower().endswith(_JSON_FILES):
        raise ToolFailure("content: give the whole content as one string, not as an object or a list", kind="invalid")
    return {**arguments, "content": json_document(content)}


def _write(arguments: Mapping[str, Any], context: ToolContext, locks: PathLocks, backups: FileBackups) -> Output:
    at = authorize_path("write", KINDS, arguments["path"], context)
    if (size := len(arguments["content"].encode(errors="replace"))) > TEXT_LIMIT:
        raise too_large_error("content", size)
    with locks.thread_lock(at.path):
        data, facts = _as_before(arguments["content"], at)
        with backing_up(backups, at, data, context) as kept:
            created = at.write_atomically(data)
    return Output({"path": at.shown, "bytes": len(data), "created": created, **facts}, metadata=kept.metadata())


def _as_before(content: str, at: SafePath) -> tuple[bytes, dict[str, str]]:
    """Return the content in the encoding of the file that it replaces, and with its line ends if they are all CR LF;
    and what to tell of that. Raises ToolFailure where it has what `read` shows in the place of bytes that are no text:
    they would be lost."""
    try:
        with at.open() as file:
            old = file.read(TEXT_LIMIT)
    except ToolFailure:  # there is no file, or none that may be read
        return content.encode(errors="replace"), {}
    head = old[:HEAD_SIZE]
    if "\ufffd" in content and utf16_of(head) is None and not is_utf8(read_bounded(at)):
        raise ToolFailure(
            f"{at.shown} is not UTF-8, and content has \ufffd where its other bytes are, which would be lost; change a "
            "part with edit, which keeps them, or convert the file with bash first",
            kind="invalid",
        )
    if "\n" in content and "\r" not in content and has_cr_lf_only(old):
        return encoded_as(content.replace("\n", "\r\n"), head), {"line_ends": "CR LF, as before"}
    return encoded_as(content, head), {}
