"""A bounded ring of events, sent as server-sent events: watchers follow it, and take it up again by `Last-Event-ID`."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic_core import to_json

from .clock import Clock
from .errors import RequestError
from .net import ShareCounter

A = TypeVar("A")
EVENTS_LOST = "events-lost"
"""The event that tells a watcher that events after its `Last-Event-ID` are no longer there."""
HEARTBEAT_SECONDS = 15.0
MAX_EVENT_BYTES = 256 * 1024
"""The long fields of a larger event are left out."""
LONG_FIELD_BYTES = 1024
PIECE_BYTES = 64 * 1024


class TooManyWatchers(RequestError):
    """Too many clients watch the events already; close some, or try again later."""

    status = 429
    code = "too_many_watchers"


@dataclass(frozen=True, slots=True)
class RingLimits:
    """The bounds of a ring."""

    events: int = 4096
    bytes: int = 4 << 20
    watchers: int = 256


class _Event(NamedTuple, Generic[A]):
    audience: A
    """Who may see it, in the terms of the ring's owner."""
    body: bytes


@dataclass(slots=True)
class _Share:
    """The events of one owner."""

    ids: deque[int] = field(default_factory=deque[int])
    bytes: int = 0


class EventRing(Generic[A]):
    """The latest events. A watcher holds only a position in the ring, so a slow one costs no memory. A full ring drops
    the oldest event of the owner that has the most in it, so that no owner pushes out the events of others.

    Ids are integers that grow by one. They begin at the time of the start in microseconds, so that those of the next
    process are larger.
    """

    def __init__(self, clock: Clock, limits: RingLimits | None = None) -> None:
        self._clock = clock
        self._limits = limits or RingLimits()
        self._first = self._last = self._forgotten = clock.now_ms() * 1000
        """Ids before the first event, of the latest one, and of the latest one that is no longer in the ring."""
        self._events: dict[int, _Event[A]] = {}
        self._ids: list[int] = []
        """Of the events in the ring, in their order."""
        self._shares: dict[str, _Share] = {}
        self._bytes = 0
        self._watchers = ShareCounter(self._limits.watchers)
        self._news: asyncio.Event | None = None
        """Set with the next event; None while nobody waits for it."""
        self._closed = False

    def append(self, kind: str, audience: A, facts: Mapping[str, Any], *, owner: str = "") -> None:
        """Add an event for all watchers that may see its audience. Never waits. `owner` shares the ring with others."""
        self._last += 1
        body = _render(self._last, kind, facts, self._clock.now_ms())
        self._events[self._last] = _Event(audience, body)
        self._ids.append(self._last)
        share = self._shares.setdefault(owner, _Share())
        share.ids.append(self._last)
        share.bytes += len(body)
        self._bytes += len(body)
        while self._bytes > self._limits.bytes or len(self._ids) > self._limits.events:
            self._forget_one()
        self._wake()

    def _forget_one(self) -> None:
        owner, share = max(self._shares.items(), key=lambda one: self._part(one[1]))
        gone = share.ids.popleft()
        size = len(self._events.pop(gone).body)
        share.bytes -= size
        self._bytes -= size
        del self._ids[bisect_left(self._ids, gone)]
        if not share.ids:
            del self._shares[owner]
        self._forgotten = max(self._forgotten, gone)

    def _part(self, share: _Share) -> float:
        return share.bytes / self._limits.bytes + len(share.ids) / self._limits.events

    def follow(
        self,
        sees: Callable[[A], bool],
        *,
        after: int | None = None,
        holder: str = "",
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> AsyncGenerator[bytes]:
        """Return the events that a watcher may see: those after the id `after`, or from now on without it.

        The stream ends when the ring is closed, or has overtaken the watcher. A watcher that has missed events, since
        `after` is too old or of another process, first receives `events-lost` and then all that is in the ring.
        `holder` shares the number of watchers with others. Raises TooManyWatchers.
        """
        if not self._watchers.acquire(holder):
            raise TooManyWatchers(headers={"Retry-After": "5"})
        self._watchers.release(holder)  # taken for good when the stream is read: one that never is would keep it
        return self._follow(sees, self._last if after is None else after, holder, heartbeat)

    def close(self) -> None:
        """End the streams of all watchers, once they have what is in the ring."""
        self._closed = True
        self._wake()

    async def _follow(
        self, sees: Callable[[A], bool], after: int, holder: str, heartbeat: float
    ) -> AsyncGenerator[bytes]:
        with self._watchers.hold(holder) as admitted:
            if not admitted:
                return
            forgotten = self._forgotten
            lost = not forgotten <= after <= self._last
            position = after if self._first <= after <= self._last else self._first
            beginning = _render(position, EVENTS_LOST, {"after": after}, self._clock.now_ms()) if lost else b""
            yield b": watching\n" + (beginning or _position(position))
            clock = asyncio.get_running_loop().time
            sent = clock()
            while self._forgotten <= max(position, forgotten):
                piece, position = self._piece(position, sees)
                if piece:
                    yield piece
                    sent = clock()
                elif self._closed:
                    return
                elif (left := sent + heartbeat - clock()) <= 0:
                    yield b": keep-alive\n" + _position(position)
                    sent = clock()
                else:
                    await self._wait_for_news(left)

    def _piece(self, position: int, sees: Callable[[A], bool]) -> tuple[bytes, int]:
        """Return events after the position, about as many as fit into a piece, and the position after them."""
        found = list[bytes]()
        size = 0
        for event_id in self._ids[bisect_right(self._ids, position) :]:
            if size >= PIECE_BYTES:
                return b"".join(found), position
            position = event_id
            event = self._events[event_id]
            if sees(event.audience):
                found.append(event.body)
                size += len(event.body)
        return b"".join(found), self._last

    async def _wait_for_news(self, seconds: float) -> None:
        """Wait for the next event of any audience, at most so long."""
        if self._news is None:
            self._news = asyncio.Event()
        news = self._news
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None


def parse_event_id(text: str | None) -> int | None:
    """Return the id in a `Last-Event-ID` header; None without one. Any text that is no id is an event long gone."""
    if not text:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def _position(event_id: int) -> bytes:
    """Return the id without an event: the client takes the stream up again from here."""
    return b"id: %d\n\n" % event_id


def _render(event_id: int, kind: str, facts: Mapping[str, Any], now_ms: int) -> bytes:
    body = to_json({"type": kind, **facts, "at": now_ms})
    if len(body) > MAX_EVENT_BYTES:
        short = {name: value for name, value in facts.items() if len(to_json(value)) <= LONG_FIELD_BYTES}
        body = to_json({"type": kind, **short, "at": now_ms})
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event_id, kind.encode(), body)
