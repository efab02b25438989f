"""How principals share the slots of agents that others have called, at one depth."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from agent_common.net import ShareCounter

REFUSED_SECONDS = 60.0
"""How long the next free slot is kept for a principal that was refused one."""


class AgentSlots:
    """Slots of agents that work at the same time. A principal may have all of them while no other wants one; the next
    free one goes to the principal that has the fewest, and among its calls to the one that waits longest."""

    def __init__(self, slots: int, monotonic: Callable[[], float]) -> None:
        self._used = ShareCounter(slots)
        self._monotonic = monotonic
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._refused: dict[str, float] = {}
        """Principals that were refused a slot, each with the time until which one is kept for it."""

    @asynccontextmanager
    async def wait_for_slot(self, principal: str) -> AsyncGenerator[None]:
        """Hold a slot during the block, and wait for it as long as the caller does."""
        if self._used.free <= 0 or self._waiting:
            await self._wait(principal)
        else:
            self._used.take(principal)
        try:
            yield
        finally:
            self.release(principal)

    def take(self, principal: str) -> bool:
        """Take a slot. Returns False if there is none; the principal's next try then comes before those of others that
        have more."""
        now = self._monotonic()
        self._refused = {name: until for name, until in self._refused.items() if until > now}
        held = self._used.held(principal)
        before = sum(name != principal and self._used.held(name) < held for name in self._refused)
        if self._used.free <= before:
            self._refused.setdefault(principal, now + REFUSED_SECONDS)
            return False
        self._refused.pop(principal, None)
        self._used.take(principal)
        return True

    def release(self, principal: str) -> None:
        self._used.release(principal)
        while self._waiting and self._used.free > 0:
            following = min(self._waiting, key=lambda one: self._used.held(one[0]))
            self._waiting.remove(following)
            name, granted = following
            if not granted.done():  # its call may be cancelled just now
                self._used.take(name)
                granted.set_result(None)

    async def _wait(self, principal: str) -> None:
        granted = asyncio.get_running_loop().create_future()
        waiting = principal, granted
        self._waiting.append(waiting)
        try:
            await granted
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            if not granted.cancelled():  # it was granted at that moment
                self.release(principal)
            raise
