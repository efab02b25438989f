"""Collect what a plugin prints: the log of each call, and the last output of a worker that ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from .protocol import end_of_log

TAIL_BYTES = 2000
"""Bytes that are kept of a log, from its end."""
MARK_SECONDS = 0.2
"""How long an answer waits for the mark after its log. A plugin that closes its output sends none."""


class OutputLog:
    """Collects one worker's output. A call's log is the text between `begin` and its mark."""

    def __init__(self) -> None:
        self._text = b""
        self._mark = b""
        self._marked = asyncio.Event()

    def feed(self, piece: bytes) -> None:
        kept = self._text + piece
        if self._mark and not self._marked.is_set() and self._mark in kept:
            kept = kept.replace(self._mark, b"", 1)
            self._marked.set()
        self._text = kept[-TAIL_BYTES - len(self._mark) :]

    def begin(self, call: str) -> None:
        """Start the log of a call."""
        self._text = b""
        self._mark = end_of_log(call)
        self._marked.clear()

    async def collect(self) -> str:
        """Return the log of the call that has just been answered."""
        with suppress(TimeoutError):
            async with asyncio.timeout(MARK_SECONDS):
                await self._marked.wait()
        return self.text

    @property
    def text(self) -> str:
        return self._text[-TAIL_BYTES:].decode(errors="replace").strip()
