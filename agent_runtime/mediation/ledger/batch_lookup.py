"""Batch concurrent lookups: keys that arrive during one lookup go into the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")


class BatchLookup(Generic[V]):
    """Collects keys and passes them, each once, to `lookup`, which returns a value for each. A key that arrives during
    a lookup goes into the next one, so no answer is older than its question."""

    def __init__(self, lookup: Callable[[tuple[str, ...]], Awaitable[Mapping[str, V]]]) -> None:
        self._lookup = lookup
        self._asked: dict[str, asyncio.Future[V]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def pending_count(self) -> int:
        """Number of keys whose lookup has not begun."""
        return len(self._asked)

    def submit(self, key: str) -> asyncio.Future[V]:
        """Return the future value, which other callers may share. It raises what `lookup` raises."""
        future = self._asked.get(key)
        if future is None:
            future = self._asked[key] = asyncio.get_running_loop().create_future()
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="mediation ledger")
        return future

    async def wait_idle(self) -> None:
        """Return once all submitted keys have their values."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        asked: dict[str, asyncio.Future[V]] = {}
        try:
            while self._asked:
                asked = self._asked
                self._asked = {}
                try:
                    found = await self._lookup(tuple(asked))
                except Exception as error:  # noqa: BLE001  all callers must learn of it
                    for future in asked.values():
                        if not future.done():
                            future.set_exception(error)
                else:
                    for key, future in asked.items():
                        if not future.done():
                            future.set_result(found[key])
        finally:
            self._task = None
            for future in (*asked.values(), *self._asked.values()):
                future.cancel()
