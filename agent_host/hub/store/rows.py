"""What the hub stores, as rows, and the interface of a store. The names of fields are those of the tables' columns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from agent_common.protocol.hub import Envelope


class AgentRow(NamedTuple):
    """A registered agent."""

    agent_id: str
    name: str
    passport: str
    resume: str
    rule: str
    registered_at: int


class AgentRemoval(NamedTuple):
    """An agent that is not registered any more."""

    agent_id: str


class SessionRow(NamedTuple):
    """A snapshot of a session."""

    session_id: str
    type: str
    creator_id: str
    state: str
    snapshot: str
    snapshot_sequence: int
    fired: str
    due_at: int | None
    created_at: int
    closed_at: int | None


class ListedSession(NamedTuple):
    """A session in a list."""

    session_id: str
    type: str
    state: str


class EnvelopeRow(NamedTuple):
    """One envelope of a log."""

    session_id: str
    sequence: int
    envelope_id: str
    sender_id: str
    idempotency_key: str | None
    causation_id: str | None
    body: str


class CursorRow(NamedTuple):
    """How far an agent has come in a session."""

    session_id: str
    agent_id: str
    acked_through: int
    acked_above: str
    """JSON: what is done with behind it, as pairs of the first and the last sequence of a range, or as numbers."""
    attempts: int
    done: bool


class TurnRow(NamedTuple):
    """How an agent's turn over an envelope ended."""

    session_id: str
    agent_id: str
    sequence: int
    outcome: str
    at: int


class DeadLetterRow(NamedTuple):
    """An envelope that an agent has refused too often."""

    session_id: str
    agent_id: str
    sequence: int
    envelope_id: str
    reason: str
    attempts: int
    at: int


class AuditRow(NamedTuple):
    """Something that an operator may want to know later."""

    at: int
    kind: str
    agent_id: str | None
    session_id: str | None
    detail: str


class TaskRow(NamedTuple):
    """A task. It is written over the version before it, or not at all; and none that is not over goes into a session
    that is."""

    task_id: str
    version: int
    owner_id: str
    session_id: str | None
    state: str
    expires_at: int | None
    completed_at: int | None
    task: str


class TaskCheckpoint(NamedTuple):
    """Where the owner of a task may go on."""

    task_id: str
    checkpoint: str


class TasksEnd(NamedTuple):
    """All tasks of a session, or of an agent, that are not over expire, each with its row of the audit."""

    why: str
    at: int
    session_id: str | None = None
    owner_id: str | None = None


class Violation(NamedTuple):
    """An expectation that one of several hubs acts upon: the first one that says so."""

    session_id: str
    key: str
    current: frozenset[str]
    """Keys of those that may come again, this one included; all others are forgotten."""


class LeaseEnd(NamedTuple):
    """An agent that a hub does not deliver to any more."""

    agent_id: str
    fence: int


class Fenced(NamedTuple):
    """A row that is written only while the hub has the lease of its agent."""

    row: CursorRow | TurnRow | DeadLetterRow
    fence: int


def fenced(row: CursorRow | TurnRow | DeadLetterRow, fence: int | None) -> Row:
    """The row as a hub writes it that has a lease of this number; None: it shares the database with no other."""
    return row if fence is None else Fenced(row, fence)


Row = (
    Fenced | LeaseEnd | Violation | AgentRow | AgentRemoval | SessionRow | EnvelopeRow | CursorRow | TurnRow
    | DeadLetterRow | AuditRow | TaskRow | TaskCheckpoint | TasksEnd
)  # fmt: skip


class Conflict(Exception):
    """The session has got an envelope of that sequence or key from somewhere else, or the task another version."""


@dataclass(eq=False, slots=True)
class Submission:
    """Rows that are written together or not at all."""

    rows: Sequence[Row]
    on_written: Callable[[Exception | None], None] | None = None
    """Called on the event loop when they are durable, or with the error: Conflict or another."""
    is_withdrawn: bool = False
    """Set by who submitted it, until it is written: it is left out, and not called back."""


async def submit_and_wait(
    store: HubStore,
    *rows: Row,
    on_stored: Callable[[], None] | None = None,
    on_refused: Callable[[], None] | None = None,
) -> None:
    """Write rows together, and return once they are durable. Raises Conflict, or why they cannot be written.

    One of the calls follows in any case, also when the caller does not wait any more."""
    written: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def on_written(error: Exception | None) -> None:
        call = on_stored if error is None else on_refused
        if call is not None:
            call()
        if not written.done():
            written.set_result(error)

    store.submit(Submission(rows, on_written))
    error = await written
    if error is not None:
        raise error


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks to list."""

    owner_id: str | None = None
    session_id: str | None = None
    state: str | None = None
    after: str = ""
    """Begin after this id."""
    limit: int = 100


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session and its cursors, as of its snapshot."""

    row: SessionRow
    cursors: Sequence[CursorRow]


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that is not over, as a start of the hub needs it."""

    session_id: str
    creator_id: str
    due_at: int | None
    has_tail: bool
    """Whether its log goes on after its snapshot."""
    size: int
    """Characters of its snapshot."""


PAGE_BYTES = 512 << 10
"""Bytes of a page of a log that is read at once, from which on it has no more envelopes."""


def page_of(bodies: Iterable[str]) -> list[Envelope]:
    """Read the envelopes of a page, until it is full."""
    page: list[Envelope] = []
    size = 0
    for body in bodies:
        page.append(Envelope.model_validate_json(body))
        size += len(body.encode())
        if size >= PAGE_BYTES:
            break
    return page


def page_of_snapshots(rows: Iterable[SessionRow]) -> list[SessionRow]:
    """Take the snapshots of a page, until it is full, and one more if there are more."""
    page: list[SessionRow] = []
    size = 0
    for row in rows:
        page.append(row)
        if size >= PAGE_BYTES:
            break
        size += len(row.snapshot)
    return page


class HubStore(Protocol):
    """Keeps the hub's rows."""

    envelopes_read: int
    """Envelopes that were read so far."""

    def submit(self, submission: Submission) -> None:
        """Write rows in the order of submission. Never waits."""
        ...

    async def flush(self) -> None:
        """Return once all that was submitted before is written or refused."""
        ...

    async def agents(self) -> list[AgentRow]: ...

    async def open_sessions(self) -> list[OpenSession]: ...

    async def session(self, session_id: str) -> StoredSession | None: ...

    async def log(self, session_id: str, after: int, limit: int) -> list[Envelope]:
        """Envelopes after a sequence, in order: at most `limit`, and none after the one that fills PAGE_BYTES."""
        ...

    async def undelivered(self, agent_id: str) -> list[str]:
        """Ids of sessions in which something may be left to deliver to an agent."""
        ...

    async def sessions_of(self, agent_id: str, after: str, limit: int) -> list[ListedSession]:
        """Sessions of an agent in the order of their ids."""
        ...

    async def snapshots(self, agent_id: str | None, after: str, limit: int) -> list[SessionRow]:
        """The same of an agent, or of all, with their snapshots: one at most after the one that fills PAGE_BYTES."""
        ...

    async def find_key(self, session_id: str, sender_id: str, key: str) -> Envelope | None:
        """The envelope that has this idempotency key."""
        ...

    async def find_reply(self, session_id: str, sender_id: str, causation_id: str, after: int) -> str | None:
        """Id of the envelope by which a sender has answered another, after a sequence."""
        ...

    async def outcome(self, session_id: str, agent_id: str, sequence: int) -> str | None: ...

    async def dead_letters(self, after: int, limit: int) -> list[tuple[int, DeadLetterRow]]:
        """Dead letters and their numbers, after a number."""
        ...

    async def audit(self, after: int, limit: int) -> list[tuple[int, AuditRow]]: ...

    async def task(self, task_id: str) -> TaskRow | None: ...

    async def tasks(self, query: TaskFilter) -> list[TaskRow]:
        """Tasks in the order of their ids."""
        ...

    async def checkpoint(self, task_id: str) -> str | None: ...

    async def count_live_tasks(self, owner_id: str) -> int:
        """Number of an agent's tasks that are not over."""
        ...

    async def task_deadlines(self) -> list[tuple[str, int]]:
        """Ids of the tasks that are not over, and when they expire."""
        ...

    async def newest_id(self) -> str:
        """The highest id of an envelope; empty: there is none."""
        ...

    async def close(self) -> None:
        """Write what waits, and let go of everything."""
        ...
