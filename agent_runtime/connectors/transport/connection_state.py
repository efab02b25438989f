"""How a transport tells the owner of a connection that it is over, and why."""

from __future__ import annotations

import asyncio
from typing import Any

Streams = tuple[Any, Any]
"""What an MCP session reads from, and what it writes to."""


class ConnectionState:
    """Knows why a connection is over; the first reason counts."""

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed
        self.reason: str | None = None

    def end(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason
        self._changed.set()
