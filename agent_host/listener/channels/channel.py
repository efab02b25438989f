"""The host's state of one workspace's channel, whether an agent is attached or not."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from pydantic import BaseModel

from agent_common.net import Endpoint
from agent_common.protocol.work import ApiOpened, ConstraintAck, Control, Severity

from ..ledger.work import OpenWork
from ..timers import Timer
from .rate_limit import FrameRateLimiter

P = TypeVar("P", bound=asyncio.Protocol)
Dialect = Literal["strict", "loose"]
Auth = Literal["hmac", "none"]
Fence = Literal["quarantined", "halted", "deleted"]
AckStatus = Literal["pending", "acked", "hash_mismatch", "timeout", "halted"]
SessionState = Literal["resuming", "constraining", "ready", "draining", "gone"]
"""`resuming`: the agent has not yet listed the work that it still has. `constraining`: it has not yet acknowledged the
constraints. `ready`: it may get work. `draining`: it finishes the work that it has. `gone`: the session has ended."""


@dataclass(frozen=True, slots=True)
class AckDeadlines:
    """Deadlines for the acknowledgement of new constraints, in seconds during which the agent is attached."""

    alert: float
    halt: float
    runs_while_busy: bool
    """Whether the time counts while the agent has work. If False, it counts once the agent is idle."""


ACK_DEADLINES: dict[Severity, AckDeadlines] = {
    "LOW": AckDeadlines(60, 120, runs_while_busy=False),
    "MEDIUM": AckDeadlines(30, 60, runs_while_busy=False),
    "HIGH": AckDeadlines(10, 20, runs_while_busy=True),
    "CRITICAL": AckDeadlines(5, 15, runs_while_busy=True),
}


@dataclass(slots=True)
class ConstraintSet:
    """The constraints in force, without their payload, which stays in the database."""

    version: int
    hash: str
    payload_ref: str
    severity: Severity
    effective_at: str
    status: AckStatus = "pending"
    owed_seconds: float = 0.0
    """Seconds for which the agent was attached without having acknowledged."""
    alerted: bool = False

    def is_matched_by(self, ack: ConstraintAck | None) -> bool:
        """Whether the acknowledgement has this version and this hash. None matches nothing."""
        return ack is not None and ack.version == self.version and ack.hash == self.hash


@dataclass(slots=True, eq=False)
class WorkspaceChannel:
    """The channel of one workspace. Its durable fields are the columns of the table `channels`."""

    workspace: str
    dialect: Dialect
    auth: Auth
    listen: str | None
    """The workspace's own address, or None if its agent connects to the shared address."""
    key: bytes | None = field(repr=False)
    epoch: int
    fence: Fence | None
    fence_reason: str | None
    drained: bool
    created_at: int
    rate_limiter: FrameRateLimiter = field(repr=False)
    """The rate limit for frames from its agent."""
    required: bool = False
    """Whether its agent performs no side effects while it is not connected."""
    result_url: str | None = field(default=None, repr=False)
    """Where results of its tasks are sent, unless a task says otherwise. None: nowhere."""
    result_secret: str | None = field(default=None, repr=False)
    """Signs the results that are sent. None for channels that were created before there was one."""

    offered_epochs: set[int] = field(default_factory=set[int])
    """Epochs that are reserved for connections whose handshake is not complete."""
    constraints: ConstraintSet | None = None
    ack_timers: list[Timer] = field(default_factory=list[Timer])
    """The timers for alert and halt, while the attached agent has constraints to acknowledge."""
    ack_owed_since: float | None = None
    """Monotonic time at which these timers were started; None while they do not run."""
    ack_owed_for: ConstraintSet | None = None
    """The constraints that these timers are for; None while they do not run."""
    session: AttachedAgent | None = None
    address: Endpoint | None = None
    """The address that its own acceptor has bound; None if there is none."""
    queue: deque[OpenWork] = field(default_factory=deque[OpenWork])
    """Work that waits to be sent."""
    waiting_for_constraints: list[OpenWork] = field(default_factory=list[OpenWork])
    """Work that requires constraints which are not in force yet."""
    lost: dict[str, OpenWork] = field(default_factory=dict[str, OpenWork])
    """Work sent over connections that have broken, by request id; the agent reports on it when it next attaches."""
    paused: bool = False

    @property
    def loose(self) -> bool:
        return self.dialect == "loose"


class ApiConnections(Protocol):
    """The connections to an attached agent's HTTP API."""

    async def connect(self, protocol: Callable[[], P]) -> P:
        """Ask the agent for a connection, and return its protocol. Raises RequestError and OSError."""
        ...

    def claim(self, frame: ApiOpened, connection: HandedOver) -> bool:
        """Hand a connection over to the protocol that waits for it. Returns False if none does."""
        ...


class HandedOver(Protocol):
    """A connection that has brought one line."""

    def hand_over(self) -> asyncio.Transport: ...


class AttachedAgent(Protocol):
    """One attachment of an agent to its workspace. `AgentSession` implements it over a connection."""

    state: SessionState
    acked: ConstraintAck | None
    """The agent's last acknowledgement of constraints, or None."""

    @property
    def channel(self) -> WorkspaceChannel: ...

    @property
    def api(self) -> ApiConnections: ...

    @property
    def epoch(self) -> int: ...

    @property
    def slots(self) -> dict[str, OpenWork]:
        """Work that was sent to the agent and that it has not reported as completed, by request id."""
        ...

    @property
    def window(self) -> int:
        """Number of slots that the agent has."""
        ...

    @property
    def peer_max_line(self) -> int:
        """Bytes of the longest line that the agent accepts."""
        ...

    @property
    def takes_task_results(self) -> bool:
        """Whether both ends have agreed on `task_result`."""
        ...

    @property
    def negotiated(self) -> bool:
        """Whether both ends have agreed on control frames."""
        ...

    @property
    def confirmed(self) -> bool:
        """Whether the agent has answered the greeting, and therefore knows its epoch."""
        ...

    @property
    def last_received_at(self) -> float:
        """Monotonic time of the last byte received, in seconds."""
        ...

    def mark_resumed(self) -> None:
        """Record that both ends agree on the work of earlier connections."""
        ...

    def mark_ready(self) -> bool:
        """Change the state to `ready`. Returns False if it is `ready` already, or if the session is ending."""
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
        """Give up an attempt that the agent has not accepted or finished in time, and end the session."""
        ...

    def freeze(self) -> None:
        """Stop the deadlines of the connection and of the work in the slots, until `thaw`."""
        ...

    def thaw(self) -> None: ...

    def drain(self, seconds: float) -> None:
        """Send no more work. The session ends once the agent has finished its work, at the latest after `seconds`."""
        ...

    def end(self, reason: str, *, abruptly: bool = False) -> None:
        """End the attachment. Idempotent. `abruptly`: drop frames that are not written yet."""
        ...

    def run_before_next_frame(self, job: Coroutine[Any, Any, None]) -> None:
        """Run the job, and read no frame of the agent until it is done."""
        ...

    def record_event(self, kind: str, detail: str | None = None, request_id: str | None = None) -> None:
        """Add a row to the audit trail."""
        ...

    def alarm(self, code: str, detail: str, request_id: str | None = None) -> None: ...
