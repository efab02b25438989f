"""How a transport reports what happens to a connection, and the reason for its end, to the connection's owner."""

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
        self.answered = False
        """Whether the server has answered a message over HTTP otherwise than by asking for credentials."""
        self.session_shown = False
        """Whether a message of ours has named a session that the server had given."""
        self.session_unknown = False
        """Whether the connection ended because the server does not know our session, so that a new one may help."""

        self._gap = False

    def note_gap(self) -> None:
        """Report that notifications may have been missed, and are heard again."""
        self._gap = True
        self._changed.set()

    def take_gap(self) -> bool:
        """Return whether notifications may have been missed since this was last asked."""
        gap = self._gap
        self._gap = False
        return gap

    def end(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason
        self._changed.set()

    def end_session(self, reason: str) -> None:
        """End the connection because the server does not know our session any more."""
        self.session_unknown = self.session_unknown or self.reason is None
        self.end(reason)
