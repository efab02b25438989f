"""Serialize changes of a path by tools and callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

POLL_SECONDS = 0.02
"""Seconds between looks at whether the thread of a cancelled call has finished."""


class PathLocks:
    """One change per path at a time in this server, first come first served, so that of two changes in one step the
    later one wins."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[Path, threading.Lock] = WeakValueDictionary()
        self._queues: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def async_lock(self, path: Path) -> AsyncGenerator[None]:
        """Lock the path in the order of the requests. Who waits here, also for the thread of a cancelled call, keeps no
        thread waiting."""
        queue = self._queues.get(path)
        if queue is None:
            queue = self._queues[path] = asyncio.Lock()
        async with queue:
            while (lock := self._locks.get(path)) is not None and lock.locked():  # noqa: ASYNC110  a thread ends it
                await asyncio.sleep(POLL_SECONDS)
            yield

    @contextmanager
    def thread_lock(self, path: Path) -> Generator[None]:
        """Lock the path in a worker thread. A cancelled call keeps this lock until its thread has finished."""
        with self._guard:
            lock = self._locks.get(path)
            if lock is None:
                lock = self._locks[path] = threading.Lock()
        with lock:
            yield
