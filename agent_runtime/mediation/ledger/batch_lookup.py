"""Questions to the disk that many ask at the same time: what comes while one is out goes with the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")


class BatchLookup(Generic[V]):
    """`answer` is given the keys that wait, each once, and gives a value for each of them. A key that comes while it
    works goes with the next ones, so nobody gets an answer that is older than his question."""

    def __init__(self, lookup: Callable[[tuple[str, ...]], Awaitable[Mapping[str, V]]]) -> None:
        self._lookup = lookup
        self._asked: dict[str, asyncio.Future[V]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def pending_count(self) -> int:
        """Keys that nobody has begun to answer."""
        return len(self._asked)

    def submit(self, key: str) -> asyncio.Future[V]:
        """The answer to come; others may wait for the same one. Raises what `answer` raises."""
        future = self._asked.get(key)
        if future is None:
            future = self._asked[key] = asyncio.get_running_loop().create_future()
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="mediation ledger")
        return future

    async def wait_idle(self) -> None:
        """Returns once all that was asked is answered."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        asked: dict[str, asyncio.Future[V]] = {}
        try:
            while self._asked:
                asked, self._asked = self._asked, {}
                try:
                    found = await self._lookup(tuple(asked))
                except Exception as error:  # noqa: BLE001  whoever has asked must hear
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
