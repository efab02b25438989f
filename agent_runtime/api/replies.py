"""How an answer is written: one JSON object, or a stream of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel
from pydantic_core import to_json

from ..loop import Admission, Turn
from ..protocol import chunks as c
from ..sessions import Message, replay


def message(body: BaseModel, status: int = 200, *, exclude_none: bool = False) -> Response:
    """A message of the protocol as JSON."""
    return Response(
        body.__pydantic_serializer__.to_json(body, exclude_none=exclude_none), status, media_type="application/json"
    )


def as_json(body: dict[str, Any], status: int = 200) -> Response:
    return Response(to_json(body), status, media_type="application/json")


def live_stream(turn: Turn, admission: Admission) -> Response:
    """A turn's chunks from the first one, then live. Whoever hangs up only stops watching."""
    return StreamingResponse(_follow(turn, admission), headers=c.STREAM_HEADERS)


def recorded_stream(reply: Message | None, error: str | None) -> Response:
    """The chunks of a turn that has ended, made from its record. One that was cancelled before it ran has no reply."""
    chunks = replay(reply) if reply else (c.Abort(reason=error),)
    return Response(b"".join([*(chunk.event() for chunk in chunks), c.DONE]), headers=c.STREAM_HEADERS)


async def _follow(turn: Turn, admission: Admission) -> AsyncIterator[bytes]:
    if turn.state == "queued":
        place = {"position": admission.ahead(turn), **turn.names()}
        yield c.DataChunk(type="data-queue", data=place, transient=True).event()
    async for events in turn.live.follow():
        yield events
