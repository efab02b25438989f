"""State of one workspace's end of the channel, whether an agent is attached or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import BaseModel

from agent_common.net import Endpoint
from agent_common.protocol.work import ConstraintAck, Control, Severity

from ..ledger.work import OpenWork
from ..timers import Timer
from .rate_limit import FrameRateLimiter

Dialect = Literal["strict", "loose"]
Auth = Literal["hmac", "none"]
Fence = Literal["quarantined", "halted"]
AckStatus = Literal["pending", "acked", "hash_mismatch", "timeout", "halted"]
SessionState = Literal["resuming", "constraining", "ready", "draining", "gone"]
"""`resuming`: it has not said yet which work it still has. `constraining`: it owes the acknowledgement of constraints.
`ready`: it may get work. `draining`: it ends what it has. `gone`: the connection is closed."""


@dataclass(frozen=True, slots=True)
class AckDeadlines:
    """How long an agent may owe the acknowledgement of new constraints, in seconds while it is attached."""

    alert: float
    halt: float
    runs_while_busy: bool
    """Count also while the agent works; False: count from when it has nothing to do."""


ACK_DEADLINES: dict[Severity, AckDeadlines] = {
    "LOW": AckDeadlines(60, 120, runs_while_busy=False),
    "MEDIUM": AckDeadlines(30, 60, runs_while_busy=False),
    "HIGH": AckDeadlines(10, 20, runs_while_busy=True),
    "CRITICAL": AckDeadlines(5, 15, runs_while_busy=True),
}


@dataclass(slots=True)
class ConstraintSet:
    """The constraints in force; their payload stays in the database."""

    version: int
    hash: str
    payload_ref: str
    severity: Severity
    effective_at: str
    status: AckStatus = "pending"
    owed_seconds: float = 0.0
    """Seconds in which the agent was attached and owed the acknowledgement."""
    alerted: bool = False

    def is_matched_by(self, ack: ConstraintAck | None) -> bool:
        """Whether the acknowledgement names this version and this hash."""
        return ack is not None and ack.version == self.version and ack.hash == self.hash


@dataclass(slots=True, eq=False)
class WorkspaceChannel:
    """One workspace. Its durable fields are the columns of the table `channels`."""

    workspace: str
    dialect: Dialect
    auth: Auth
    listen: str | None
    """The workspace's own address; None: its agent comes to the address that all share."""
    key: bytes | None = field(repr=False)
    epoch: int
    fence: Fence | None
    fence_reason: str | None
    drained: bool
    created_at: int
    rate_limiter: FrameRateLimiter = field(repr=False)
    """What its agent may still say."""
    required: bool = False
    """Whether its agent does nothing that takes effect while it has no channel."""

    offered_epochs: set[int] = field(default_factory=set[int])
    """Epochs that were offered to connections which have not proved yet who they are."""
    constraints: ConstraintSet | None = None
    ack_timers: list[Timer] = field(default_factory=list[Timer])
    """Alert and halt, while the attached agent owes the acknowledgement of constraints."""
    ack_owed_since: float | None = None
    """When those timers were started, by the monotonic clock; None while they do not run."""
    session: AttachedAgent | None = None
    address: Endpoint | None = None
    """Where its own acceptor really listens."""
    queue: deque[OpenWork] = field(default_factory=deque[OpenWork])
    """Work that waits to be sent."""
    waiting_for_constraints: list[OpenWork] = field(default_factory=list[OpenWork])
    """Work that names constraints which are not in force yet."""
    lost: dict[str, OpenWork] = field(default_factory=dict[str, OpenWork])
    """Work that was sent over connections which broke; the next attachment tells what has become of it."""
    paused: bool = False
    last_break: str | None = None

    @property
    def loose(self) -> bool:
        return self.dialect == "loose"


class AttachedAgent(Protocol):
    """One attachment of an agent to its workspace. `AgentSession` is the one over a connection."""

    state: SessionState
    acked: ConstraintAck | None
    """The constraints that the agent has acknowledged last; None before it has acknowledged any."""

    @property
    def channel(self) -> WorkspaceChannel: ...

    @property
    def epoch(self) -> int: ...

    @property
    def slots(self) -> dict[str, OpenWork]:
        """Work that the agent was given and has not called completed, by request id."""
        ...

    @property
    def window(self) -> int:
        """How many slots the agent has."""
        ...

    @property
    def peer_max_line(self) -> int:
        """Bytes of the longest line that the agent takes."""
        ...

    @property
    def negotiated(self) -> bool:
        """Whether both ends have agreed on control frames."""
        ...

    @property
    def confirmed(self) -> bool:
        """Whether the agent has answered the greeting, so that it knows its epoch."""
        ...

    @property
    def last_received_at(self) -> float:
        """When the last byte came, by the monotonic clock."""
        ...

    def mark_resumed(self) -> None:
        """Both ends agree about the work of earlier connections."""
        ...

    def mark_ready(self) -> bool:
        """Become `ready` unless the session is ending, and return whether it has just become so."""
        ...

    def send(self, frame: Control | BaseModel, *, request_id: str | None = None, droppable: bool = False) -> None: ...

    def send_line(
        self,
        line: bytes,
        kind: str,
        *,
        request_id: str | None = None,
        audit_ref: str | None = None,
        droppable: bool = False,
    ) -> None: ...

    def free_slot(self, request_id: str) -> None:
        """Free the slot of a request, if it has one."""
        ...

    def abandon(self, work: OpenWork, why: str) -> None:
        """Give up an attempt that the agent has not carried out in time, and end the session."""
        ...

    def freeze(self) -> None:
        """Stop the deadlines of the connection and of the work in the slots, until `thaw`."""
        ...

    def thaw(self) -> None: ...

    def drain(self, seconds: float) -> None:
        """Send no new work; the agent closes once it has ended what it has, at the latest after `seconds`."""
        ...

    def end(self, reason: str, *, abruptly: bool = False) -> None:
        """End the attachment. Idempotent."""
        ...

    def run_before_next_frame(self, job: Coroutine[Any, Any, None]) -> None:
        """Run the job, and hold the agent's frames until it is done."""
        ...

    def record_event(self, kind: str, detail: str | None = None, request_id: str | None = None) -> None:
        """Add a row to the audit trail."""
        ...

    def alarm(self, code: str, detail: str, request_id: str | None = None) -> None: ...
