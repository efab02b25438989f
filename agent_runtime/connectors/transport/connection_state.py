"""How a transport reports the end of a connection, and its reason, to the connection's owner."""

from __future__ import annotations

import asyncio
from typing import Any

Streams = tuple[Any, Any]
"""The streams that an MCP session reads from and writes to."""


class ConnectionState:
    """The reason for the end of a connection; the first one that is reported counts."""

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed
        self.reason: str | None = None

    def end(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason
        self._changed.set()
