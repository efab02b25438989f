"""Server-sent events of a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from agent_common.protocol.work import Progress

from ...http import EventStream
from ..ledger.work import LedgerRecord
from ..listener import Listener
from .schemas import WorkRecord

_BEAT_SECONDS = 15.0


async def work_events(listener: Listener, request_id: str) -> EventStream:
    """Stream the events of a request. Raises NotFound if there is no such request."""
    await listener.ledger.read(request_id)
    return EventStream(_event_stream(listener, request_id))


async def _event_stream(listener: Listener, request_id: str) -> AsyncIterator[bytes]:
    news = listener.follow(request_id)
    following = asyncio.ensure_future(anext(news, None))
    try:
        while True:
            done, _ = await asyncio.wait([following], timeout=_BEAT_SECONDS)
            if not done:
                yield b": still there\n\n"
                continue
            change = following.result()
            if change is None:
                return
            yield _render_change(change)
            following = asyncio.ensure_future(anext(news, None))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await news.aclose()


def _render_change(change: LedgerRecord | Progress) -> bytes:
    if isinstance(change, Progress):
        return _sse_event("progress", change.model_dump_json(exclude_none=True))
    shown = WorkRecord.from_record(change)
    if change.is_finished:
        return _sse_event("result", shown.model_dump_json())
    status = {"request_id": shown.request_id, "status": shown.status, "attempts": shown.attempts}
    return _sse_event("status", json.dumps(status))


def _sse_event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()
