"""What a call of `write` or `edit` changes, read from the agent's files."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_common.json_document import json_document
from agent_common.protocol import is_object

from ... import Agent, ClientError
from .blocks import FileChange

MAX_BYTES = 256 * 1024
READ_SECONDS = 3.0


async def planned_change(agent: Agent, tool: str, given: Any) -> FileChange | None:
    """Return what the call would change; None if it changes no text."""
    return await _change(agent, tool, given, given.get("path") if is_object(given) else None)


async def made_change(agent: Agent, tool: str, given: Any, backup: str | None) -> FileChange | None:
    """Return what the call has changed; `backup` is the file with the former content, None that there was none."""
    return await _change(agent, tool, given, backup)


async def _change(agent: Agent, tool: str, given: Any, source: Any) -> FileChange | None:
    if tool not in ("write", "edit") or not is_object(given) or not isinstance(given.get("path"), str):
        return None
    path = str(given["path"])
    before = await _text(agent, source) if isinstance(source, str) else None
    if tool == "write":
        content = given.get("content", "")
        after = json_document(content) if isinstance(content, dict | list) else str(content)
        return FileChange(path, before or "", after, whole=before is not None)
    old = str(given.get("old_string", ""))
    new = str(given.get("new_string", ""))
    if before is None or not old or old not in before:
        return FileChange(path, old, new, whole=False)
    return FileChange(path, before, before.replace(old, new, -1 if given.get("replace_all") is True else 1))


async def _text(agent: Agent, path: str) -> str | None:
    """The content of a small text file; None if it is none, or cannot be read."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            if (await agent.files.stat(path)).size > MAX_BYTES:
                return None
            return (await agent.files.read(path)).decode()
    except (ClientError, TimeoutError, UnicodeDecodeError):
        return None
