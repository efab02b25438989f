"""Secrets that are fetched from elsewhere and used for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_common.clock import Clock


@dataclass(frozen=True, slots=True)
class KeptSecret:
    """A secret, and how long it is used."""

    value: str
    until: float
    """Monotonic time."""


class KeptSecrets:
    """Fetches each secret once, however many callers wait for it: one attempt runs at a time for each name, and what it
    fails with is the answer to all who waited meanwhile. So a source that hangs holds up each of them once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[str, KeptSecret] = {}
        self._failures: dict[str, Exception] = {}
        """The latest of each name."""
        self._locks: dict[str, asyncio.Lock] = {}

    async def get(self, name: str, fetch: Callable[[], Awaitable[KeptSecret]]) -> str:
        """Return the secret of that name, fetched unless there is one. Raises what `fetch` does."""
        earlier = self._failures.get(name)
        async with self._locks.setdefault(name, asyncio.Lock()):
            kept = self._kept.get(name)
            if kept is not None and kept.until > self._clock.monotonic():
                return kept.value
            failure = self._failures.get(name)
            if failure is not None and failure is not earlier:
                raise failure
            try:
                kept = self._kept[name] = await fetch()
            except Exception as error:
                self._failures[name] = error
                raise
            return kept.value

    def forget(self, name: str) -> None:
        """Have the next call fetch it anew."""
        self._kept.pop(name, None)
