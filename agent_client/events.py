"""Streams of events, of an agent or of a host, over any number of connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import httpx2

from agent_common.json_reader import JsonLimits, read_json

from .errors import ConnectionFailed, UnexpectedReply
from .http import MAX_ANSWER_BYTES, Call, Connection, resumed

EVENT_LIMITS = JsonLimits(MAX_ANSWER_BYTES, refuse_ambiguous=False)


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """One event of `events`."""

    id: str
    """Give it as `after` to go on from here, in another program too."""
    type: str
    """`turn-started`, `approval-requested`, `events-lost`, ... (docs/protocols/chat.md#events); of a host also
    `workspace-changed` and `work-changed`."""
    data: dict[str, Any]


async def follow_events(connection: Connection, call: Call, after: str | None) -> AsyncGenerator[AgentEvent]:
    """Yield the events after that id, or from now on. A connection that breaks is taken up again after the last one."""
    last = after or ""

    async def read() -> AsyncGenerator[AgentEvent | None]:
        nonlocal last
        resume_header = {"Last-Event-ID": last} if last else {}
        async with connection.stream(replace(call, headers={**call.headers, **resume_header})) as response:
            yield None
            async for event in httpx2.EventSource(response, max_event_size=connection.max_answer):
                last = event.id or last
                if event.data:  # the server tells the position at once
                    yield _parse(event)
        raise ConnectionFailed(f"{call.path}: the stream was cut off")

    async with aclosing(resumed(read, deadline=inf)) as events:
        async for event in events:
            yield event


def _parse(event: httpx2.ServerSentEvent) -> AgentEvent:
    try:
        return AgentEvent(event.id, event.event, read_json(event.data.encode(), EVENT_LIMITS))
    except ValueError as error:
        raise UnexpectedReply(f"not an event: {event.data[:200]}") from error
