"""When the next call may be made: Telegram limits the rate of changes in a chat, in a group and in all chats."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agent_common.clock import Clock

from ..platform import TemporarilyUnavailable

CHANGE_SECONDS = 1.0
"""Between two changes to one chat."""
_MOST_CHATS = 1024
"""Chats that are remembered before those that have been quiet are forgotten."""

Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `burst` calls at once, and one more every `seconds`."""

    burst: int
    seconds: float


PRIVATE = Rate(burst=2, seconds=CHANGE_SECONDS)
GROUP = Rate(burst=3, seconds=60 / 17)
"""Never more than 20 in a minute: the burst, and the 17 that come free in that time."""
OVERALL = Rate(burst=5, seconds=1 / 25)
"""Never more than 30 in a second, by the same sum."""


@dataclass(slots=True)
class Turns:
    """The turns of one rate."""

    rate: Rate
    all_free_at: float = 0.0
    """When the whole burst is free again."""
    closed_until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the call whose turn is next, so that the calls of a chat keep their order."""

    def earliest(self) -> float:
        """Return when the next call may be made."""
        return max(self.closed_until, self.all_free_at - (self.rate.burst - 1) * self.rate.seconds)

    def take(self, now: float) -> None:
        """Make a call now."""
        self.all_free_at = max(self.all_free_at, now) + self.rate.seconds

    def close(self, until: float) -> None:
        """Allow no call until then."""
        self.closed_until = max(self.closed_until, until)

    def is_idle(self, now: float) -> bool:
        return not self.lock.locked() and max(self.all_free_at, self.closed_until) <= now


class Limiter:
    """The turns of all chats of one bot."""

    def __init__(self, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._overall = Turns(OVERALL)
        self._chats: dict[int, Turns] = {}

    async def wait(self, chat: int | None, *, deadline: float) -> None:
        """Wait until a change to the chat may be made, or a call that changes no chat. Raises TemporarilyUnavailable
        as soon as it is certain that this takes longer than the deadline."""
        if chat is not None:
            await self._take(self._turns_of(chat), deadline)
        await self._take(self._overall, deadline)

    def close(self, chat: int, seconds: float) -> None:
        """Telegram asks to wait with calls to a chat. If it has closed another one too, it means all of them."""
        now = self._clock.monotonic()
        others = [turns.closed_until for other, turns in self._chats.items() if other != chat]
        if (last := max(others, default=now)) > now:
            self._overall.close(min(last, now + seconds))
        self._turns_of(chat).close(now + seconds)

    def closed_for(self, chat: int) -> float:
        """Return how many seconds are left of those that Telegram has asked to wait with calls to the chat."""
        return max(0.0, self._chats[chat].closed_until - self._clock.monotonic()) if chat in self._chats else 0.0

    async def _take(self, turns: Turns, deadline: float) -> None:
        _check(turns, self._clock.monotonic(), deadline)
        async with turns.lock:
            while turns.earliest() > (now := self._clock.monotonic()):
                _check(turns, now, deadline)
                await self._sleep(turns.earliest() - now)
            turns.take(now)

    def _turns_of(self, chat: int) -> Turns:
        if chat not in self._chats:
            if len(self._chats) >= _MOST_CHATS:
                now = self._clock.monotonic()
                self._chats = {each: turns for each, turns in self._chats.items() if not turns.is_idle(now)}
            self._chats[chat] = Turns(PRIVATE if chat > 0 else GROUP)
        return self._chats[chat]


def _check(turns: Turns, now: float, deadline: float) -> None:
    wait = max(0.0, turns.earliest() - now)
    if now + wait > deadline:
        raise TemporarilyUnavailable(f"Telegram's limits allow this in {wait:.0f} s", retry_after=wait, refused=True)
