"""Responses: one JSON object, or a stream of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Send

from agent_common.protocol import chunks as c
from agent_common.telemetry import logger

from ..loop import Admission, StreamInterrupted, Turn
from ..sessions import Message, replay

log = logger(__name__)


def model_response(body: BaseModel, status: int = 200, *, exclude_none: bool = False) -> Response:
    """Return a protocol message as a JSON response."""
    return Response(
        body.__pydantic_serializer__.to_json(body, exclude_none=exclude_none), status, media_type="application/json"
    )


def as_json(body: dict[str, Any], status: int = 200) -> Response:
    return Response(to_json(body), status, media_type="application/json")


class PacedStreamingResponse(StreamingResponse):
    """A long response. The server disconnects a reader that stops reading, which may reconnect
    (`agent_common/http/header_limits.py`)."""

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except StreamInterrupted:
            log.info("a reader was cut off")  # the response stays incomplete on purpose


class EventStream(PacedStreamingResponse):
    """Server-sent events."""

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, headers=c.STREAM_HEADERS)


def live_stream(turn: Turn, admission: Admission, *, through_waits: bool = True) -> Response:
    """Stream a turn's chunks, from the first one and then live. A reader that disconnects does not affect the turn.
    With `through_waits` the stream stays open while the turn waits for a person; otherwise it ends there."""
    return EventStream(_follow(turn, admission, through_waits))


def continued_stream(turn: Turn, since: int) -> Response:
    """Stream a turn's chunks after an answer, to a client that knows the earlier ones. The metadata resets `pending`,
    because a frontend merges metadata."""
    start = c.Start(messageId=turn.request.reply_id, messageMetadata={**turn.public_ids(), "pending": turn.pending()})
    return EventStream(turn.stream.follow(through_waits=False, since=since, first_chunk=start))


def recorded_stream(reply: Message | None, error: str | None) -> Response:
    """Return the recorded chunks of an ended turn. A turn that was cancelled before it ran has no reply."""
    chunks = replay(reply) if reply else (c.Abort(reason=error),)
    return Response(b"".join([*(chunk.to_sse() for chunk in chunks), c.DONE]), headers=c.STREAM_HEADERS)


async def _follow(turn: Turn, admission: Admission, through_waits: bool) -> AsyncIterator[bytes]:
    if turn.state == "queued":
        queue_position = {
            "position": admission.queues.count_ahead(turn),
            "pending": admission.queues.pending(turn),
            **turn.public_ids(),
        }
        yield c.DataChunk(type="data-queue", data=queue_position, transient=True).to_sse()
    async for events in turn.stream.follow(through_waits=through_waits):
        yield events
