"""Watchers of logs: each has a position in its log, and gets what comes after it in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic_core import to_json

from agent_common.event_ring import EVENTS_LOST, HEARTBEAT_SECONDS, TooManyWatchers
from agent_common.http import Push, never_push
from agent_common.net import ShareCounter

from .feed_memory import FeedMemory
from .feed_reader import FeedReader, matching
from .log_feed import Log, LogFeed

MOST_WATCHERS = 4096
RECHECK_SECONDS = 5.0
"""How often it is asked whether a watcher may still watch, at the latest when its feed looks at the log again."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who watches."""

    holder: str
    """By whose share of watchers it is counted."""
    may_watch: Callable[[], Awaitable[bool]]
    """Asked again and again; the stream ends when it says no."""
    push: Push = never_push


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched, and by whom."""

    log: Log
    prefix: str
    """Only events whose keys begin so."""
    after: int | None
    """The number of the last event that the watcher has; None: watch from now on."""
    client: Client


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
            feed.wake_readers()

    async def close(self) -> None:
        self.end_streams()
        await asyncio.gather(*(feed.stop() for feed in self._feeds.values()), *self._ending, return_exceptions=True)

    async def follow(self, watch: Watch) -> AsyncGenerator[bytes]:
        """Return the events of the log as server-sent events. Raises TooManyWatchers.

        A watcher whose next event is no longer kept gets `events-lost`, and then what comes from now on."""
        if not self._slots.fits(watch.client.holder):
            raise TooManyWatchers(headers={"Retry-After": "5"})
        # Now, and not when the stream is first read: who has seen that it is open misses nothing.
        position = (await watch.log.range()).newest if watch.after is None else watch.after
        return self._follow(watch, position)

    async def _follow(self, watch: Watch, position: int) -> AsyncGenerator[bytes]:
        with self._slots.hold(watch.client.holder) as admitted:
            if not admitted:
                return
            reader = FeedReader(position, watch.prefix, watch.client.push)
            async with self._feed_of(watch.log, reader) as feed:
                async for piece in self._pieces(watch, reader, feed):
                    yield piece

    async def _pieces(self, watch: Watch, reader: FeedReader, feed: LogFeed) -> AsyncGenerator[bytes]:
        kept = await watch.log.range()
        yield b": watching\n"
        if not kept.oldest - 1 <= reader.position <= kept.newest:
            yield _skip(reader, kept.newest)
        else:
            yield _position_event(reader.position)
        clock = asyncio.get_running_loop().time
        reader.sent_at = clock()
        reader.check_at = reader.sent_at + RECHECK_SECONDS
        while not self._closed.is_set():
            if clock() >= reader.check_at:
                if not await watch.client.may_watch():
                    return
                reader.check_at = clock() + RECHECK_SECONDS
            found = feed.after(reader.position)
            if found is None and not (found := await watch.log.read(reader.position)):
                kept = await watch.log.range()
                yield _skip(reader, kept.newest)
            elif found:
                reader.position = found[-1].number
                body = matching(found, watch.prefix)
                found = None  # not kept while the watcher reads
                if body:
                    yield body
                    reader.sent_at = clock()
            elif clock() - reader.sent_at >= HEARTBEAT_SECONDS:
                yield b": keep-alive\n" + _position_event(reader.position)
                reader.sent_at = clock()
            else:
                await reader.wait()

    @asynccontextmanager
    async def _feed_of(self, log: Log, reader: FeedReader) -> AsyncGenerator[LogFeed]:
        newest = (await log.range()).newest
        feed = self._feeds.get(log)
        if feed is None:
            feed = self._feeds[log] = LogFeed(log, newest, self._memory)
        feed.readers.add(reader)
        try:
            yield feed
        finally:
            feed.readers.discard(reader)
            if not feed.readers and self._feeds.get(log) is feed:
                del self._feeds[log]
                ending = feed.stop()  # without waiting: a stream whose client has gone away may not wait any more
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)


def _position_event(number: int) -> bytes:
    """Return the number without an event: the client takes the stream up again from here."""
    return b"id: %d\n\n" % number


def _skip(reader: FeedReader, newest: int) -> bytes:
    """Put the reader behind the newest event. Returns the event that tells its client."""
    facts = to_json({"kind": EVENTS_LOST, "after": reader.position})
    reader.position = newest
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (newest, EVENTS_LOST.encode(), facts)
