"""The gate that closes while a required channel is broken.

See docs/explanation/design.md#a-required-channel-fails-closed.
"""

from __future__ import annotations

import asyncio

NOTICE_SECONDS = 0.25
"""How much later than other connections to the host the channel may be found broken."""


class ChannelGate:
    """Implements ports.SideEffectGate: open while the channel is, or always if the channel is not required."""

    def __init__(self, *, required: bool) -> None:
        self._open = asyncio.Event()
        self.required = required
        self.closures = 0
        if not required:
            self._open.set()

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        if self.required and self._open.is_set():
            self.closures += 1
            self._open.clear()

    async def wait_open(self) -> None:
        if not self._open.is_set():
            await self._open.wait()

    async def has_closed_since(self, closures: int) -> bool:
        if self.required and self.closures == closures:
            await asyncio.sleep(NOTICE_SECONDS)
        return self.closures != closures
