"""Watchers of logs: each has a position in its log, and gets what comes after it in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic_core import to_json

from agent_common.event_ring import EVENTS_LOST, HEARTBEAT_SECONDS, TooManyWatchers
from agent_common.net import ShareCounter

from .feed_memory import FeedMemory
from .log_feed import Log, LogFeed, LoggedEvent

MOST_WATCHERS = 4096
RECHECK_SECONDS = 5.0
"""How often it is asked whether a watcher may still watch, at the latest when its feed looks at the log again."""
MayWatch = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched, and by whom."""

    log: Log
    prefix: str
    """Only events whose keys begin so."""
    after: int | None
    """The number of the last event that the watcher has; None: watch from now on."""
    holder: str
    may_watch: MayWatch
    """Asked again and again; the stream ends when it says no."""


class Watchers:
    """The streams of all watchers."""

    def __init__(self, memory: FeedMemory | None = None) -> None:
        """`memory`: what these watchers share with others of the host."""
        self._memory = memory or FeedMemory()
        self._feeds: dict[Log, LogFeed] = {}
        self._ending: set[asyncio.Task[None]] = set()
        """Tasks of feeds that nobody watches any more."""
        self._slots = ShareCounter(MOST_WATCHERS)
        self._closed = asyncio.Event()

    def announce(self, log: Log) -> None:
        """Tell those who watch the log that an event is on disk."""
        if (feed := self._feeds.get(log)) is not None:
            feed.announce()

    def end_streams(self) -> None:
        """End the streams of all watchers, because the host stops."""
        self._closed.set()
        for feed in self._feeds.values():
            feed.news.set()

    async def close(self) -> None:
        self.end_streams()
        await asyncio.gather(*(feed.stop() for feed in self._feeds.values()), *self._ending, return_exceptions=True)

    async def follow(self, watch: Watch) -> AsyncGenerator[bytes]:
        """Return the events of the log as server-sent events. Raises TooManyWatchers.

        A watcher whose next event is no longer kept gets `events-lost`, and then what comes from now on."""
        if not self._slots.fits(watch.holder):
            raise TooManyWatchers(headers={"Retry-After": "5"})
        # Now, and not when the stream is first read: who has seen that it is open misses nothing.
        position = (await watch.log.range()).newest if watch.after is None else watch.after
        return self._follow(watch, position)

    async def _follow(self, watch: Watch, position: int) -> AsyncGenerator[bytes]:
        with self._slots.hold(watch.holder) as admitted:
            if not admitted:
                return
            async with self._feed_of(watch.log) as feed:
                async for piece in self._pieces(watch, position, feed):
                    yield piece

    async def _pieces(self, watch: Watch, position: int, feed: LogFeed) -> AsyncGenerator[bytes]:
        kept = await watch.log.range()
        yield b": watching\n"
        if not kept.oldest - 1 <= position <= kept.newest:
            yield _lost(position, kept.newest)
            position = kept.newest
        else:
            yield _position_event(position)
        clock = asyncio.get_running_loop().time
        checked = sent = clock()
        while not self._closed.is_set():
            if clock() - checked >= RECHECK_SECONDS:
                if not await watch.may_watch():
                    return
                checked = clock()
            news = feed.news
            found = feed.after(position)
            if found is None and not (found := await watch.log.read(position)):
                kept = await watch.log.range()
                yield _lost(position, kept.newest)
                position = kept.newest
            elif found:
                position = found[-1].number
                body, found = _matching(found, watch.prefix), None  # not kept while the watcher reads
                if body:
                    yield body
                    sent = clock()
            elif clock() - sent >= HEARTBEAT_SECONDS:
                yield b": keep-alive\n" + _position_event(position)
                sent = clock()
            else:
                await news.wait()

    @asynccontextmanager
    async def _feed_of(self, log: Log) -> AsyncGenerator[LogFeed]:
        newest = (await log.range()).newest
        feed = self._feeds.get(log)
        if feed is None:
            feed = self._feeds[log] = LogFeed(log, newest, self._memory)
        feed.watchers += 1
        try:
            yield feed
        finally:
            feed.watchers -= 1
            if not feed.watchers and self._feeds.get(log) is feed:
                del self._feeds[log]
                ending = feed.stop()  # without waiting: a stream whose client has gone away may not wait any more
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)


def _matching(found: Sequence[LoggedEvent], prefix: str) -> bytes:
    return b"".join(event.body for event in found if event.key.startswith(prefix))


def _position_event(number: int) -> bytes:
    """Return the number without an event: the client takes the stream up again from here."""
    return b"id: %d\n\n" % number


def _lost(after: int, newest: int) -> bytes:
    facts = to_json({"kind": EVENTS_LOST, "after": after})
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (newest, EVENTS_LOST.encode(), facts)
