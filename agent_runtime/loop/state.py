"""The one object that carries a turn from its admission to its end."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from .conversations import Conversation
from .limits import Books, Outcome
from .streams import LiveTurn

StopReason = Literal["cancelled", "deadline", "shutdown"]
Settling = Callable[[sqlite3.Connection, "Turn", int], None]
"""What else belongs into the transaction that starts or ends a turn; gets the time in epoch milliseconds."""


@dataclass(slots=True, eq=False)
class Turn:
    """One user message on its way to a finished reply."""

    conversation: Conversation
    message_id: str
    reply_id: str
    parts: list[dict[str, Any]]
    books: Books
    model: str
    session_name: str
    """The session as the caller named it; replies and streams use this name."""
    message_name: str
    task_id: str | None = None
    interactive: bool = False
    on_start: Settling | None = None
    on_end: Settling | None = None
    state: Literal["queued", "running", "settling", "ended"] = "queued"
    was_queued: bool = False
    """It could not start when it came."""
    admission: asyncio.Future[None] | None = None
    """The write that makes it durable."""
    durable: bool = False
    """Its admission is on disk."""
    interruptible: bool = False
    """The loop has begun. A turn that is stopped before that ends as soon as it begins, so that its end is settled."""
    stop_reason: StopReason | None = None
    outcome: Outcome | None = None
    retrying: str | None = None
    """Why the model call is being made again, while it is."""
    started_ms: int | None = None
    started_at: float | None = None
    duration_ms: int = 0
    reply: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The recorded parts, once the turn has ended."""
    live: LiveTurn = field(default_factory=LiveTurn)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    runner: asyncio.Task[None] | None = None

    @property
    def could_start(self) -> bool:
        return self.state == "queued" and self.durable

    def names(self) -> dict[str, str]:
        """How this turn is called on the wire."""
        names = {"session_id": self.session_name, "message_id": self.message_name}
        return {**names, "task_id": self.task_id} if self.task_id else names

    def stop(self, reason: StopReason) -> None:
        """Cancels whatever the turn waits for. The first reason counts; a turn that is being settled goes on."""
        if self.state == "running" and self.stop_reason is None:
            self.stop_reason = reason
            if self.interruptible and self.runner is not None:
                self.runner.cancel()
