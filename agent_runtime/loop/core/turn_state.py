"""The state of a turn: the request, what this process holds of it, and its end."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_common.json_cost import VALUE_BYTES, memory_of, memory_of_text
from agent_common.protocol import Usage
from agent_common.protocol.authority import Layer

from ...agents import DEFAULT
from ...context import sent_note
from ...ports import TOPIC_SOURCE, Fallback, Note
from ...sessions import FALLBACKS, note_fallback
from ...store import Unit
from ..limits.budget import UsageBudget
from ..limits.outcome import TurnOutcome
from ..limits.turn_limits import TurnLimits
from .live_sessions import LiveSession
from .pending_requests import PendingRequest
from .turn_stream import TurnStream

StopReason = Literal[
    "cancelled", "caller", "deadline", "host_deadline", "unanswered", "shutdown", "channel", "constraints"
]
State = Literal["queued", "running", "finalizing", "waiting", "resuming", "ended"]
"""`finalizing`: its end, or its wait for a person, is being written to the disk. `waiting`: it waits for a person and
nothing of it runs. `resuming`: it has its answers and waits for a slot."""
TRANSITIONS: Mapping[State, frozenset[State]] = {
    "queued": frozenset({"running", "finalizing", "resuming", "ended"}),
    "running": frozenset({"finalizing", "ended"}),
    "finalizing": frozenset({"finalizing", "waiting", "queued", "ended"}),
    "waiting": frozenset({"resuming", "running", "ended"}),
    "resuming": frozenset({"waiting", "running", "ended"}),
    "ended": frozenset(),
}
"""The states that may follow a state. From `finalizing` a turn returns to `queued` when the disk refused to record
that it was cancelled or has joined another turn; it is finalized again when the first attempt failed."""
TurnHook = Callable[[sqlite3.Connection, "Turn", int], None]
"""Writes more in the transaction that starts or ends a turn. The last argument is the time in epoch milliseconds."""


AnswerCheck = Callable[[str], Awaitable[str | None]]
"""Returns what is wrong with a final answer; None if it can be accepted."""


class WorkRecorder(Protocol):
    """Keeps a record of work from outside in the transactions that admit and end its turn."""

    def record_admission(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        """Record new work in the transaction that stores its turn. An exception prevents both."""
        ...

    def record_end(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        """Record the end of the work. The turn has its outcome, and the record of its task, if any, is written."""
        ...


@dataclass(frozen=True, slots=True)
class ExternalWork:
    """Work from the mediation channel, the hub or a topic, whose sender records it."""

    source: str
    """The entry point it came through."""
    work_id: str
    recorder: WorkRecorder
    narrow_limits: Callable[[TurnLimits], TurnLimits]
    layer: Layer | None = None
    """Limits what the turn may use, in addition to the agent's own authority."""


@dataclass(frozen=True, slots=True, eq=False)
class TurnRequest:
    """The request that a turn answers."""

    session: LiveSession
    message_id: str
    reply_id: str
    parts: list[dict[str, Any]]
    session_name: str
    """The session as the caller named it; replies and streams use this name."""
    message_name: str
    model_chosen_by: Literal["message", "agent", "session"] = "agent"
    """A session keeps its message's choice once a call with it has succeeded. With `session`, the turn uses the
    session's model as it is when the turn starts."""
    agent: str = DEFAULT
    temperature: float | None = None
    """From the agent's manifest; None: the provider's default."""
    task_id: str | None = None
    parent: Turn | None = None
    """The turn that called this one as a subagent."""
    interactive: bool = False
    sender: str | None = None
    """The member of a group who sent the message, and answers what the turn asks; None: not named."""
    steers: bool = False
    """The message joins the turn that runs in its session, if that takes another step."""
    external_work: ExternalWork | None = None
    check_answer: AnswerCheck | None = None
    """None: every answer is accepted."""
    on_start: TurnHook | None = None
    on_end: TurnHook | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the session goes on after this turn with all of its authority: it is none of a task, of work from
        outside or of a subagent."""
        work = self.external_work
        return self.parent is None and (self.task_id is None or (work is not None and work.source == TOPIC_SOURCE))


@dataclass(slots=True)
class TurnAdmission:
    """The progress of a turn's admission."""

    queued: bool = False
    """Whether no slot was free, or its session was busy, at its admission."""
    write: asyncio.Future[None] | None = None
    """The write that makes it durable."""
    done: bool = False
    """Whether the admission is on disk."""


@dataclass(slots=True)
class TurnStart:
    """The start of a turn, and the state of its record."""

    at_ms: int | None = None
    """Epoch milliseconds."""
    monotonic: float | None = None
    """Seconds; earlier than the real start by the time that the turn ran in earlier processes."""
    announced: bool = False
    """The event `turn-started` was sent."""
    unrecorded: Unit[None] | None = None
    """The write that is still to be done; None once it is done, or if none is needed."""
    write: asyncio.Future[None] | None = None


@dataclass(slots=True)
class HumanWait:
    """The answers that a turn needs from a person."""

    requests: dict[str, PendingRequest] = field(default_factory=dict[str, PendingRequest])
    """The open questions and approvals by id, while the turn waits."""
    answerable_ids: set[str] = field(default_factory=set[str])
    """Questions and approvals of the current step that may be answered already."""
    answer_writes: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Answers that are being written to the disk."""
    since_ms: int | None = None
    """Epoch milliseconds."""
    timer: asyncio.TimerHandle | None = None
    """Ends the wait at its deadline."""


@dataclass(slots=True)
class ModelRetry:
    """The model call that is being repeated; both None while none is."""

    reason: str | None = None
    attempt: int | None = None

    def clear(self) -> None:
        """Record that the model answers, or that the call is given up."""
        self.reason = self.attempt = None


@dataclass(slots=True)
class TurnEnd:
    """The end of a turn, or the reason why it will end."""

    stop_reason: StopReason | None = None
    """Why it was stopped; None: it was not."""
    outcome: TurnOutcome | None = None
    recorded: bool = False
    """The end is on the disk."""
    duration_ms: int = 0
    reply_parts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The recorded parts of the reply, once the turn has ended or waits."""
    joined_turn: Turn | None = None
    """The turn that this message joined instead of becoming a turn of its own."""


@dataclass(slots=True, eq=False)
class Turn:
    """One user message on its way to a finished reply."""

    request: TurnRequest
    session: LiveSession = field(init=False)
    """The request's."""
    message_id: str = field(init=False)
    """The request's."""
    budget: UsageBudget
    model: str
    state: State = "queued"
    """The state, which only `transition` changes."""
    fallbacks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The models that answered in its place, as its reply's metadata has them."""
    fallback: Fallback | None = None
    """The one that answered the latest call in its place."""
    sent_ms: int = 0
    """When the message arrived, in epoch milliseconds, as in its row."""
    notes: tuple[Note, ...] | None = None
    """The notes for the model below the message; None until the turn starts."""
    has_run_before: bool = False
    """Whether it has run in an earlier process, or before it waited for a person."""
    admission: TurnAdmission = field(default_factory=TurnAdmission)
    start: TurnStart = field(default_factory=TurnStart)
    human_wait: HumanWait = field(default_factory=HumanWait)
    retry: ModelRetry = field(default_factory=ModelRetry)
    end: TurnEnd = field(default_factory=TurnEnd)
    stream: TurnStream = field(default_factory=TurnStream)
    run_task: asyncio.Task[None] | None = None
    parts_bytes: int = 0
    """The memory of its message and its reply when they were last measured."""
    interruptible: bool = False
    """The loop has begun. A turn that is stopped before that ends when it begins, so that its end is recorded."""
    paused_or_ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the turn waits for a person, and once it has ended."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.session = self.request.session
        self.message_id = self.request.message_id

    def transition(self, state: State) -> None:
        """Change the state. Raises RuntimeError for a change that `TRANSITIONS` does not have."""
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"turn {self.message_id} cannot go from {self.state} to {state}")
        self.state = state

    def measure(self) -> None:
        """Measure what it keeps in memory until it ends."""
        self.parts_bytes = sum(map(_memory_of_part, (*self.request.parts, *self.end.reply_parts)))

    @property
    def kept_bytes(self) -> int:
        return self.parts_bytes + self.stream.size

    def seconds_left(self, now: float) -> float:
        """Return the seconds until the deadline; `now` is monotonic. A task's deadline runs on through restarts; for a
        chat the time that it waited for a person does not count."""
        used = now - (self.start.monotonic or 0.0) if self.request.task_id else 0.0
        return max(0.0, self.budget.limits.seconds - used)

    @property
    def could_start(self) -> bool:
        return self.state in ("queued", "resuming") and self.admission.done

    def would_join(self, running: Turn) -> bool:
        """Return whether this message would steer that turn. One for another agent would not: that agent may have less
        authority."""
        same_agent = self.request.agent == running.request.agent
        return self.request.steers and self.state == "queued" and self.admission.done and same_agent

    def is_called_from(self, session: LiveSession) -> bool:
        """Return whether a turn of that session called this one, directly or through others."""
        parent = self.request.parent
        return parent is not None and (parent.session is session or parent.is_called_from(session))

    def public_ids(self) -> dict[str, str]:
        """Return the ids of this turn as callers know them."""
        ids = {"session_id": self.request.session_name, "message_id": self.request.message_name}
        return {**ids, "task_id": self.request.task_id} if self.request.task_id else ids

    def event_facts(self) -> dict[str, str]:
        """Return what every event about this turn says."""
        return {**self.public_ids(), "user": self.session.principal, "agent": self.request.agent}

    def note_answer(self, fallback: Fallback | None, usage: Usage) -> None:
        """Note which model has answered a call."""
        self.fallback = fallback
        if fallback is not None:
            self.fallbacks = note_fallback(self.fallbacks, fallback.model, fallback.reason, usage)

    def reply_metadata(self) -> dict[str, Any]:
        """Return the metadata that is stored with every reply; its cost can be computed from that."""
        prompt = self.session.prompts.get(self.request.agent)
        return {
            "model": {"provider_id": "mesh", "model_id": self.model},
            "agent": self.request.agent,
            "system_prompt_digest": prompt.digest if prompt else None,
            **({FALLBACKS: self.fallbacks} if self.fallbacks else {}),
        }

    @property
    def root(self) -> Turn:
        """The turn that called this one, directly or through others; itself if none did."""
        return self.request.parent.root if self.request.parent is not None else self

    @property
    def depth(self) -> int:
        """Number of callers above this turn."""
        return self.request.parent.depth + 1 if self.request.parent is not None else 0

    @property
    def all_notes(self) -> tuple[Note, ...]:
        """All notes for the model below the message, including the time it was sent."""
        return (sent_note(self.sent_ms), *(self.notes or ()))

    def pending(self) -> list[dict[str, Any]]:
        """Return the open questions and approvals as JSON for callers."""
        return [request.serialize() for request in self.human_wait.requests.values()]

    def run_end_hooks(self, connection: sqlite3.Connection, now: int) -> None:
        """Run the hooks that write more in the transaction that ends the turn."""
        if self.request.on_end is not None:
            self.request.on_end(connection, self, now)
        if self.request.external_work is not None:
            self.request.external_work.recorder.record_end(connection, self, now)

    def stop(self, reason: StopReason) -> None:
        """Cancel the turn while it runs. The first reason counts; a turn that is being finalized is left alone."""
        if self.state == "running" and self.end.stop_reason is None:
            self.end.stop_reason = reason
            if self.interruptible and self.run_task is not None:
                self.run_task.cancel()

    def was_aborted(self) -> bool:
        """Return whether it was stopped for good: not by a shutdown, of itself or of its caller, after which the next
        process may continue it."""
        return self.end.stop_reason is not None and not self._is_shut_down()

    def _is_shut_down(self) -> bool:
        caller = self.request.parent
        return self.end.stop_reason == "shutdown" or (caller is not None and caller._is_shut_down())

    def mark_ended(self) -> None:
        """Close the stream and wake all tasks that wait for the end."""
        self.transition("ended")
        self.stream.close()
        self.paused_or_ended.set()
        self.ended.set()


def _memory_of_part(part: Mapping[str, Any]) -> int:
    """Return about how many bytes of memory a part takes."""
    if part["type"] == "text" and len(part) == 2:  # most are nothing but text, which needs no JSON
        return memory_of_text(part["text"]) + 3 * VALUE_BYTES  # the object and its two members
    return memory_of(part)
