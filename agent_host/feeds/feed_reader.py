"""Where one watcher is in its log. What is new goes to a client at once, while the watcher's task sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_common.http import Push


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as watchers get it."""

    number: int
    """One more than that of the event before."""
    key: str
    """By which watchers choose."""
    body: bytes
    """The server-sent event."""


@dataclass(slots=True, eq=False)
class FeedReader:
    """One watcher's position. Its task takes events from the feed, and waits when it has them all."""

    position: int
    """The number of the last event that it has."""
    prefix: str
    """It gets events whose keys begin so."""
    push: Push
    check_at: float = 0.0
    """The event loop's time from which on its task must run before it gets anything."""
    sent_at: float = 0.0
    """When the client got something last."""
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its task has to look for itself."""
    waiting: bool = False

    async def wait(self) -> None:
        """Wait until the task has to look. Meanwhile the client gets what is new."""
        self.woken.clear()
        self.waiting = True
        try:
            await self.woken.wait()
        finally:
            self.waiting = False

    def offer(self, found: Sequence[LoggedEvent], now: float) -> None:
        """Give the client what is new, or wake the task if that cannot be done at once."""
        follows = found[0].number == self.position + 1
        if not self.waiting or not follows or now >= self.check_at or self.woken.is_set():
            self.woken.set()
            return
        body = matching(found, self.prefix)
        if body and not self.push(body):
            self.woken.set()
            return
        self.position = found[-1].number
        if body:
            self.sent_at = now


def matching(found: Sequence[LoggedEvent], prefix: str) -> bytes:
    """Return the events that a watcher of the prefix gets."""
    return b"".join(event.body for event in found if event.key.startswith(prefix))
