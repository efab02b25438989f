"""One change of a path at a time, whoever makes it: a tool, or a caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from weakref import WeakValueDictionary


class PathLocks:
    """One call at a time per path, within this server, first come first served: of two changes in one step the later
    one counts."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[Path, threading.Lock] = WeakValueDictionary()
        self._queues: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def async_lock(self, path: Path) -> AsyncGenerator[None]:
        """In the order in which it is asked for."""
        queue = self._queues.get(path)
        if queue is None:
            queue = self._queues[path] = asyncio.Lock()
        async with queue:
            yield

    @contextmanager
    def thread_lock(self, path: Path) -> Generator[None]:
        """For the worker thread itself: a call that was cancelled keeps its turn until its thread is through."""
        with self._guard:
            lock = self._locks.get(path)
            if lock is None:
                lock = self._locks[path] = threading.Lock()
        with lock:
            yield
