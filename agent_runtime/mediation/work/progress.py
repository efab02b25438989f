"""Progress of a turn for the host: its stream in larger pieces, at most a few times a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic_core import from_json  # noqa: TID251  chunks of our own making

from agent_common.protocol.work import Progress, WorkUsage

from ...loop import StreamInterrupted, TurnStream

EVERY_SECONDS = 0.25
MAX_TEXT_CHARACTERS = 64 * 1024


async def follow_progress(
    request_id: str, live: TurnStream, *, usage: Callable[[], WorkUsage], is_queued: Callable[[], bool]
) -> AsyncIterator[Progress]:
    """Yield progress frames; the sender numbers them. Text that is too long for one is left out, as the result has
    it."""
    text: list[str] = []
    queued = is_queued()
    try:
        async for piece in live.follow(through_waits=True):
            if queued and not is_queued():
                queued = False
                yield Progress(request_id=request_id, seq=0, kind="started")
            ended = False
            for chunk in _chunks(piece):
                kind = chunk.get("type")
                if kind == "text-delta":
                    text.append(chunk["delta"])
                elif kind == "tool-input-available":
                    yield Progress(request_id=request_id, seq=0, kind="tool", text=str(chunk["toolName"])[:200])
                ended = ended or kind == "finish-step"
            if text:
                joined = "".join(text)[:MAX_TEXT_CHARACTERS]
                text.clear()
                yield Progress(request_id=request_id, seq=0, kind="text", text=joined)
            if ended:
                yield Progress(request_id=request_id, seq=0, kind="step", usage=usage())
            await asyncio.sleep(EVERY_SECONDS)
    except StreamInterrupted:
        return


def _chunks(piece: bytes) -> list[dict[str, Any]]:
    """Return the chunks in a piece of server-sent events."""
    lines = (line for line in piece.split(b"\n") if line.startswith(b"data: {"))
    return [from_json(line[6:]) for line in lines]
