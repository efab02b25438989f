"""The connection with Discord's gateway, kept up over outages."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from ...platform import PlatformError
from .client import Client

RESTART_SECONDS = 60.0
"""discord.py lengthens its pauses to a quarter of an hour. After this time without a connection it begins anew."""
_CLOSE_SECONDS = 2.0

_log = logging.getLogger(__name__)


class Gateway:
    """Keeps one client connected. The handlers of its events call `lost` and `back`."""

    def __init__(self, client: Client, restart_after: float = RESTART_SECONDS) -> None:
        self._client = client
        self._seconds = restart_after
        self._deadline: asyncio.Timeout | None = None
        self._lost_at: float | None = None
        self._loss_logged = False

    async def stay_connected(self) -> None:
        """Receive events until it is cancelled. Raises what discord.py raises if connecting again is of no use."""
        self._lost_at = asyncio.get_running_loop().time()
        while True:
            await self._connect_once()

    async def _connect_once(self) -> None:
        connecting = asyncio.create_task(self._client.connect())
        try:
            async with asyncio.timeout(self._seconds) as self._deadline:
                await asyncio.wait([connecting])
            connecting.result()
            raise PlatformError("the bot was closed while it received")
        except TimeoutError:
            self._log_loss()
        finally:
            self._deadline = None  # what discord.py still tells of this connection comes too late for it
            await _end(connecting)
            await self._leave()

    async def _leave(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                if self._client.ws:
                    await self._client.ws.close(code=1000)
                await self._client.wire.close_gateway()

    def lost(self) -> None:
        """Note a connection that broke, or an attempt that failed. Discord breaks it often, and it is back at once."""
        loop = asyncio.get_running_loop()
        if self._lost_at is not None:
            self._log_loss()
        self._lost_at = self._lost_at or loop.time()
        if self._deadline and not self._deadline.expired() and self._deadline.when() is None:
            self._deadline.reschedule(loop.time() + self._seconds)

    def back(self) -> None:
        """Note that events come again."""
        if self._loss_logged and self._lost_at is not None:
            seconds = asyncio.get_running_loop().time() - self._lost_at
            _log.warning("The connection with Discord is back after %.0f s", seconds)
        self._lost_at = None
        self._loss_logged = False
        if self._deadline and not self._deadline.expired():
            self._deadline.reschedule(None)

    def _log_loss(self) -> None:
        if not self._loss_logged:
            _log.warning("Discord cannot be reached; the bot tries again until it can")
        self._loss_logged = True


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task until it ends: a connection that is ready in the same moment swallows the first time, because
    `asyncio.wait_for` of Python 3.11 does."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=1)
    await asyncio.gather(task, return_exceptions=True)
