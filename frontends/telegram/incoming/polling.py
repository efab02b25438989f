"""The loop that takes updates: each batch is on our disk before Telegram may forget it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from agent_common.backoff import Backoff
from agent_common.clock import Clock
from agent_common.telemetry import logger

from ...platform import AnotherCopy, PlatformError, TemporarilyUnavailable, TokenRejected
from .updates import album_of, update_id

log = logger(__name__)

Poll = Callable[[int | None, float], Awaitable[list[dict[str, Any]]]]
"""Returns the updates from an offset on, after at most these seconds. Raises PlatformError."""
Take = Callable[[list[dict[str, Any]]], Awaitable[None]]
"""Stores a batch."""

POLL_SECONDS = 25.0
"""Long enough to poll seldom, short enough to notice soon that a connection is dead. Telegram allows 50."""
CONFLICT_SECONDS = 60.0
"""A copy that is ending, or that a new one replaces, is gone by then."""
ALBUM_SECONDS = 0.5
"""The parts of an album, a message each, arrive within moments. The first one ends a poll."""
_ALBUM_POLLS = 4
_PAUSES = Backoff(first=0.5, most=15.0, jitter=0.5)
_QUIET_FAILURES = 1
"""Failures in a row of which nothing is logged: a connection that idles for long is cut now and then."""


class PollingLoop:
    """Takes updates until it is cancelled."""

    def __init__(
        self,
        poll: Poll,
        take: Take,
        *,
        clock: Clock,
        poll_seconds: float = POLL_SECONDS,
        conflict_seconds: float = CONFLICT_SECONDS,
        album_seconds: float = ALBUM_SECONDS,
        pauses: Backoff = _PAUSES,
    ) -> None:
        self._poll = poll
        self._take = take
        self._clock = clock
        self._pauses = pauses
        self._poll_seconds = poll_seconds
        self._album_seconds = album_seconds
        self._outage = Outage(clock)
        self._conflicts = Conflicts(conflict_seconds)

    async def run(self) -> None:
        """Raises TokenRejected, and AnotherCopy if another copy stays. What `take` raises is raised too; then the batch
        was not confirmed."""
        offset: int | None = None
        while True:
            try:
                # After a failure the answer comes at once, so that the end of an outage is seen when it ends.
                batch = await self._poll(offset, 0.0 if self._outage.failures else self._poll_seconds)
                batch = await self._with_whole_albums(batch, offset)
                newest = newest_of(batch)
            except TokenRejected:
                raise
            except PlatformError as error:
                await self._pause(error)
                continue
            self._outage.over()
            if batch:
                await self._take(batch)
            # The next poll confirms the batch. One that came back empty has confirmed all before it, and asks for
            # whatever is there from then on: after a silent week Telegram may number updates from a lower number.
            offset = None if newest is None else newest + 1

    async def _with_whole_albums(self, batch: list[dict[str, Any]], offset: int | None) -> list[dict[str, Any]]:
        """Return the batch with what arrives of its albums in a moment; what comes later is a message of its own.
        Nothing is confirmed meanwhile, so that an album is stored as one or not at all."""
        for _ in range(_ALBUM_POLLS):
            if not any(album_of(raw) for raw in batch):
                break
            await asyncio.sleep(self._album_seconds)
            try:
                more = {update_id(raw): raw for raw in (*batch, *await self._poll(offset, 0.0))}
            except PlatformError:  # the next poll shows it
                break
            if len(more) == len(batch):
                break
            batch = [*more.values()]
        return batch

    async def _pause(self, error: PlatformError) -> None:
        now = self._clock.monotonic()
        if isinstance(error, AnotherCopy) and self._conflicts.last_too_long(now):
            raise error
        self._outage.failed(error)
        asked = error.retry_after if isinstance(error, TemporarilyUnavailable) else None
        await asyncio.sleep(max(asked or 0.0, self._pauses.pause(self._outage.failures)))


def newest_of(batch: list[dict[str, Any]]) -> int | None:
    """Return the highest number of a batch, None if it is empty. Raises TemporarilyUnavailable if no update has one:
    then the batch cannot be confirmed."""
    if not batch:
        return None
    newest = max(update_id(raw) for raw in batch)
    if newest < 0:
        raise TemporarilyUnavailable("Telegram gave updates without numbers")
    return newest


class Conflicts:
    """How long another copy has been there. It shows itself only when both wait for updates at once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._first = self._last = float("-inf")

    def last_too_long(self, now: float) -> bool:
        """Note a conflict. Return whether they have come for too long, with no long silence between them."""
        if now - self._last > self._seconds:
            self._first = now
        self._last = now
        return now - self._first >= self._seconds


class Outage:
    """Logs when Telegram fails and when it is there again, however often it is asked meanwhile."""

    def __init__(self, clock: Clock) -> None:
        self.failures = 0
        self._clock = clock
        self._since = 0.0

    def failed(self, error: PlatformError) -> None:
        self.failures += 1
        if self.failures == 1:
            self._since = self._clock.monotonic()
        if self.failures == _QUIET_FAILURES + 1:
            log.warning("no updates from Telegram", reason=str(error))

    def over(self) -> None:
        if self.failures > _QUIET_FAILURES:
            seconds = round(self._clock.monotonic() - self._since, 1)
            log.info("updates from Telegram again", seconds=seconds, failures=self.failures)
        self.failures = 0
