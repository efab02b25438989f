"""The one object that carries a turn from its admission to its end."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_common.protocol.authority import Layer

from ...agents import DEFAULT
from ...context import sent_note
from ...ports import Note
from ...store import Unit
from .limits import TurnLimits, TurnOutcome, UsageBudget
from .live_sessions import LiveSession
from .pending_requests import PendingRequest
from .turn_stream import TurnStream

StopReason = Literal["cancelled", "caller", "deadline", "unanswered", "shutdown", "channel", "constraints"]
State = Literal["queued", "running", "settling", "waiting", "resuming", "ended"]
"""`settling`: its end, or its wait for a person, is on the way to the disk. `waiting`: put away until a person has
answered. `resuming`: gone on with as soon as there is a slot."""
TurnHook = Callable[[sqlite3.Connection, "Turn", int], None]
"""What else belongs into the transaction that starts or ends a turn; gets the time in epoch milliseconds."""


class WorkRecorder(Protocol):
    """Keeps a record of work that was handed in, in the very transactions that admit and end its turn."""

    def record_admission(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        """The turn is about to be stored. What this raises stops it."""
        ...

    def record_end(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        """The turn has its outcome, and its task, if it has one, its record."""
        ...


@dataclass(frozen=True, slots=True)
class ExternalWork:
    """What comes with work that nobody waits for at a keyboard and somebody keeps a record of."""

    source: str
    """The door it came through."""
    work_id: str
    recorder: WorkRecorder
    narrow_limits: Callable[[TurnLimits], TurnLimits]
    """Narrows the limits of its turn."""
    layer: Layer | None = None
    """What it may use, beside what the agent may."""


@dataclass(slots=True, eq=False)
class Turn:
    """One user message on its way to a finished reply."""

    session: LiveSession
    message_id: str
    reply_id: str
    parts: list[dict[str, Any]]
    budget: UsageBudget
    model: str
    session_name: str
    """The session as the caller named it; replies and streams use this name."""
    message_name: str
    model_chosen_by: Literal["message", "agent", "session"] = "agent"
    """Who chose the model. A session keeps its message's choice once a call with it has succeeded; a message that
    leaves the choice to the session uses what that has when the turn starts."""
    agent: str = DEFAULT
    """Who answers."""
    temperature: float | None = None
    """As the agent's manifest says; none: the provider's own."""
    task_id: str | None = None
    parent: Turn | None = None
    """The turn that has called this one to help it."""
    interactive: bool = False
    snapshot_id: str | None = None
    """The host's snapshot of the machine as it was before this message."""
    sent_ms: int = 0
    """When the message came; epoch milliseconds, as its row says."""
    notes: tuple[Note, ...] | None = None
    """What else the model is told below the message; none until the turn starts."""
    steers: bool = False
    """It joins the turn that runs, if that comes to another step."""
    unrecorded_start: Unit[None] | None = None
    """What is still to be recorded of its start."""
    start_write: asyncio.Future[None] | None = None
    """The write that records it."""
    on_start: TurnHook | None = None
    on_end: TurnHook | None = None
    external_work: ExternalWork | None = None
    state: State = "queued"
    was_queued: bool = False
    """It could not start when it came."""
    has_run_before: bool = False
    """It has run before: in an earlier life, or until it had to wait for a person."""
    admission_write: asyncio.Future[None] | None = None
    """The write that makes it durable."""
    admitted: bool = False
    """Its admission is on disk."""
    interruptible: bool = False
    """The loop has begun. A turn that is stopped before that ends as soon as it begins, so that its end is settled."""
    stop_reason: StopReason | None = None
    pending_requests: dict[str, PendingRequest] = field(default_factory=dict[str, PendingRequest])
    """The open questions and approvals by id, while it waits."""
    answer_writes: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Answers that are on their way to the disk."""
    answerable_ids: set[str] = field(default_factory=set[str])
    """Calls and approvals of the step at work that a person may answer already."""
    waiting_since_ms: int | None = None
    """Epoch milliseconds."""
    wait_timer: asyncio.TimerHandle | None = None
    """Ends the wait."""
    joined_turn: Turn | None = None
    """The turn that this message has joined."""
    outcome: TurnOutcome | None = None
    end_recorded: bool = False
    """It has come to its end here, and that is on the disk."""
    retry_reason: str | None = None
    """Why the model call is being made again, while it is."""
    retry_attempt: int | None = None
    """Which attempt that is."""
    started_ms: int | None = None
    started_monotonic: float | None = None
    duration_ms: int = 0
    start_announced: bool = False
    """Those who watch know that it has started."""
    reply_parts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The recorded parts, once the turn has ended or waits."""
    stream: TurnStream = field(default_factory=TurnStream)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    paused_or_ended: asyncio.Event = field(default_factory=asyncio.Event)
    """It has ended, or waits for a person."""
    run_task: asyncio.Task[None] | None = None

    @property
    def could_start(self) -> bool:
        return self.state in ("queued", "resuming") and self.admitted

    def would_join(self, running: Turn) -> bool:
        """Whether this message steers that turn. One for another agent does not: that may be one that may do less."""
        return self.steers and self.state == "queued" and self.admitted and self.agent == running.agent

    def is_called_from(self, session: LiveSession) -> bool:
        """Whether it was called, directly or not, by a turn of that session."""
        return self.parent is not None and (self.parent.session is session or self.parent.is_called_from(session))

    def public_ids(self) -> dict[str, str]:
        """How this turn is called on the wire."""
        names = {"session_id": self.session_name, "message_id": self.message_name}
        return {**names, "task_id": self.task_id} if self.task_id else names

    def reply_metadata(self) -> dict[str, Any]:
        """What is kept with the reply whatever becomes of it: what it cost can be worked out from that."""
        brief = self.session.prompt_of(self.agent)
        return {
            "model": {"provider_id": "mesh", "model_id": self.model},
            "agent": self.agent,
            "system_prompt_digest": brief.digest if brief else None,
        }

    @property
    def depth(self) -> int:
        """How many turns are above this one."""
        return self.parent.depth + 1 if self.parent is not None else 0

    @property
    def all_notes(self) -> tuple[Note, ...]:
        """All that the model is told below the message."""
        return (sent_note(self.sent_ms), *(self.notes or ()))

    def pending(self) -> list[dict[str, Any]]:
        """What it waits for, as callers see it."""
        return [wait.serialize() for wait in self.pending_requests.values()]

    def run_end_hooks(self, connection: sqlite3.Connection, now: int) -> None:
        """What else belongs into the transaction that ends it."""
        if self.on_end is not None:
            self.on_end(connection, self, now)
        if self.external_work is not None:
            self.external_work.recorder.record_end(connection, self, now)

    def stop(self, reason: StopReason) -> None:
        """Cancels whatever the turn waits for. The first reason counts; a turn that is being settled goes on."""
        if self.state == "running" and self.stop_reason is None:
            self.stop_reason = reason
            if self.interruptible and self.run_task is not None:
                self.run_task.cancel()

    def mark_ended(self) -> None:
        """Nothing more will be heard of it."""
        self.state = "ended"
        self.stream.close()
        self.paused_or_ended.set()
        self.ended.set()
