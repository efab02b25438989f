"""A process of a machine that an earlier process of the host has started. It is watched without being our child."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Self

from .child import KILL_SECONDS
from .record import ProcessRecord


class AdoptedProcess:
    """A process that runs. The handle on it stays valid if its id is reused, so that no other process is killed."""

    def __init__(self, record: ProcessRecord, handle: int) -> None:
        self.name = record.name
        self.pid = record.pid
        self._handle = handle
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(handle, self._on_end)

    @classmethod
    def find(cls, record: ProcessRecord) -> Self | None:
        """Return the process that the record names, or None if it has ended."""
        try:
            handle = os.pidfd_open(record.pid)
        except ProcessLookupError:
            return None
        if record.running:  # looked up after the handle was made: the handle is on this process
            return cls(record, handle)
        os.close(handle)
        return None

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    async def wait(self) -> str:
        await self._ended.wait()
        return "ended"  # only its parent would know how

    async def kill(self) -> None:
        """Kill the process, and return once it has ended. Idempotent. Raises TimeoutError."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        async with asyncio.timeout(KILL_SECONDS):
            await self._ended.wait()

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        self._ended.set()
