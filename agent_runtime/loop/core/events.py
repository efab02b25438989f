"""Send lifecycle events to watchers, without replay and without back-pressure (docs/protocols/chat.md#events)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from ...errors import Busy
from ...ports import Clock
from .turn_stream import HEARTBEAT, HEARTBEAT_SECONDS

MAX_WATCHERS = 256
MAX_QUEUED_EVENTS = 1024
"""Maximum events queued for a slow watcher. One that falls further back is disconnected and may reconnect."""


@dataclass(slots=True, eq=False)
class _Watcher:
    principal: str | None
    queue: deque[bytes] = field(default_factory=deque[bytes])
    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: bool = False


class EventBus:
    """Numbers events and queues them for every watcher."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_id = 0
        self._watchers: set[_Watcher] = set()
        self._closed = False

    def emit(self, kind: str, principal: str | None, /, **facts: Any) -> None:
        self._last_id += 1
        if not self._watchers:
            return
        body = to_json({"type": kind, **facts, "at": self._clock.now_ms()})
        event = b"id: %d\nevent: %b\ndata: %b\n\n" % (self._last_id, kind.encode(), body)
        for watcher in self._watchers:
            if principal is None or watcher.principal in (None, principal):
                _enqueue(watcher, event)

    def watch(self, principal: str | None) -> AsyncIterator[bytes]:
        """Return events from now on as server-sent events. A principal of None: those of all principals. Raises Busy if
        there are too many watchers."""
        if len(self._watchers) >= MAX_WATCHERS:
            raise Busy(
                f"{MAX_WATCHERS} clients already watch the events",
                code="too_many_watchers",
                headers={"Retry-After": "5"},
            )
        return self._follow(_Watcher(principal))

    def close(self) -> None:
        """End the stream of every watcher."""
        self._closed = True
        for watcher in self._watchers:
            watcher.wakeup.set()

    async def _follow(self, watcher: _Watcher) -> AsyncIterator[bytes]:
        self._watchers.add(watcher)
        try:
            yield b": watching\n\n"
            while not watcher.dropped:
                if watcher.queue:
                    events = b"".join(watcher.queue)
                    watcher.queue.clear()
                    yield events
                    continue
                if self._closed:
                    return
                watcher.wakeup.clear()
                try:
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await watcher.wakeup.wait()
                except TimeoutError:
                    yield HEARTBEAT
        finally:
            self._watchers.discard(watcher)


def _enqueue(watcher: _Watcher, event: bytes) -> None:
    if len(watcher.queue) >= MAX_QUEUED_EVENTS:
        watcher.dropped = True
        watcher.queue.clear()
    if not watcher.dropped:
        watcher.queue.append(event)
    watcher.wakeup.set()
