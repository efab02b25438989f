"""The one object that carries a turn from its admission to its end."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ..store import Unit
from .conversations import Conversation
from .limits import Books, Outcome
from .streams import LiveTurn
from .waits import Wait

StopReason = Literal["cancelled", "deadline", "unanswered", "shutdown"]
State = Literal["queued", "running", "settling", "waiting", "resuming", "ended"]
"""`settling`: its end, or its wait for a person, is on the way to the disk. `waiting`: put away until a person has
answered. `resuming`: gone on with as soon as there is a slot."""
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
    snapshot_id: str | None = None
    """The host's snapshot of the machine as it was before this message."""
    steers: bool = False
    """It joins the turn that runs, if that comes to another step."""
    start: Unit[None] | None = None
    """What is still to be recorded of its start."""
    starting: asyncio.Future[None] | None = None
    """The write that records it."""
    on_start: Settling | None = None
    on_end: Settling | None = None
    state: State = "queued"
    was_queued: bool = False
    """It could not start when it came."""
    begun: bool = False
    """It has run before: in an earlier life, or until it had to wait for a person."""
    admission: asyncio.Future[None] | None = None
    """The write that makes it durable."""
    durable: bool = False
    """Its admission is on disk."""
    interruptible: bool = False
    """The loop has begun. A turn that is stopped before that ends as soon as it begins, so that its end is settled."""
    stop_reason: StopReason | None = None
    waits: dict[str, Wait] = field(default_factory=dict[str, Wait])
    """The open questions and approvals by id, while it waits."""
    answering: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Answers that are on their way to the disk."""
    asked: set[str] = field(default_factory=set[str])
    """Calls and approvals of the step at work that a person may answer already."""
    waiting_since: int | None = None
    """Epoch milliseconds."""
    expiry: asyncio.TimerHandle | None = None
    """Ends the wait."""
    joined: Turn | None = None
    """The turn that this message has joined."""
    outcome: Outcome | None = None
    retrying: str | None = None
    """Why the model call is being made again, while it is."""
    attempt: int | None = None
    """Which attempt that is."""
    started_ms: int | None = None
    started_at: float | None = None
    duration_ms: int = 0
    announced: bool = False
    """Those who watch know that it has started."""
    reply: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The recorded parts, once the turn has ended or waits."""
    live: LiveTurn = field(default_factory=LiveTurn)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    quiet: asyncio.Event = field(default_factory=asyncio.Event)
    """It has ended, or waits for a person."""
    runner: asyncio.Task[None] | None = None

    @property
    def could_start(self) -> bool:
        return self.state in ("queued", "resuming") and self.durable

    def names(self) -> dict[str, str]:
        """How this turn is called on the wire."""
        names = {"session_id": self.session_name, "message_id": self.message_name}
        return {**names, "task_id": self.task_id} if self.task_id else names

    def about(self) -> dict[str, Any]:
        """What is kept with the reply whatever becomes of it: what it cost can be worked out from that."""
        return {
            "model": {"provider_id": "mesh", "model_id": self.model},
            "agent": self.conversation.agent,
            "system_prompt_digest": self.conversation.digest,
        }

    def pending(self) -> list[dict[str, Any]]:
        """What it waits for, as callers see it."""
        return [wait.shown() for wait in self.waits.values()]

    def stop(self, reason: StopReason) -> None:
        """Cancels whatever the turn waits for. The first reason counts; a turn that is being settled goes on."""
        if self.state == "running" and self.stop_reason is None:
            self.stop_reason = reason
            if self.interruptible and self.runner is not None:
                self.runner.cancel()

    def end(self) -> None:
        """Nothing more will be heard of it."""
        self.state = "ended"
        self.live.close()
        self.quiet.set()
        self.ended.set()
