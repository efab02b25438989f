"""What the host knows of one workspace's end of the channel, whether an agent is attached or not."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agent_common.net import Endpoint
from agent_common.protocol.work import Severity

from ..ledger.work import OpenWork
from .rate_limit import FrameRateLimiter

if TYPE_CHECKING:
    from ..connection.session import AgentSession

Dialect = Literal["strict", "loose"]
Auth = Literal["hmac", "none"]
Fence = Literal["quarantined", "halted"]
AckStatus = Literal["pending", "acked", "hash_mismatch", "timeout", "halted"]


@dataclass(frozen=True, slots=True)
class WorkWindow:
    """How long an agent may owe the acknowledgement of new constraints, in seconds while it is attached."""

    alert: float
    halt: float
    runs_while_busy: bool
    """It also runs while the agent works; else it begins when the agent has nothing to do."""


ACK_WINDOWS: dict[Severity, WorkWindow] = {
    "LOW": WorkWindow(60, 120, runs_while_busy=False),
    "MEDIUM": WorkWindow(30, 60, runs_while_busy=False),
    "HIGH": WorkWindow(10, 20, runs_while_busy=True),
    "CRITICAL": WorkWindow(5, 15, runs_while_busy=True),
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
    """Seconds that the agent has been attached and owed the acknowledgement."""
    alerted: bool = False


@dataclass(slots=True, eq=False)
class WorkspaceChannel:
    """One workspace. What is durable stands in the table `channels`."""

    workspace: str
    dialect: Dialect
    auth: Auth
    listen: str | None
    key: bytes | None = field(repr=False)
    epoch: int
    fence: Fence | None
    fence_reason: str | None
    drained: bool
    created_at: int
    rate_limiter: FrameRateLimiter = field(repr=False)
    """What its agent may still say."""
    required: bool = False
    """Without it its agent does nothing that takes effect."""

    offered_epochs: set[int] = field(default_factory=set[int])
    """Epochs that were offered to connections which have not proved yet who they are."""
    constraints: ConstraintSet | None = None
    session: AgentSession | None = None
    address: Endpoint | None = None
    """Where its own acceptor really listens."""
    queue: deque[OpenWork] = field(default_factory=deque[OpenWork])
    """What waits to be sent."""
    waiting_for_constraints: list[OpenWork] = field(default_factory=list[OpenWork])
    """What names constraints that are not in force yet."""
    lost: dict[str, OpenWork] = field(default_factory=dict[str, OpenWork])
    """What was sent over connections that broke; the next attachment tells what has become of it."""
    paused: bool = False
    last_break: str | None = None

    @property
    def loose(self) -> bool:
        return self.dialect == "loose"
