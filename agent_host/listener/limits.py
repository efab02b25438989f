"""How long the listener waits, how much it holds, how often it tries: every number in one place."""

from __future__ import annotations

from dataclasses import dataclass

from agent_common.protocol.work import SOFT_LINE


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Seconds, bytes and counts."""

    first_line_timeout: float = 10.0
    """From a connection to its first line."""
    handshake_timeout: float = 10.0
    """For each answer that the guest owes until it is attached."""
    first_line_bytes: int = 64 << 10
    """Of a line of somebody who has proved nothing."""
    unproven: int = 256
    """Connections that have proved nothing; one more ends the oldest."""
    backlog: int = 1024
    """Connections that the kernel keeps for us."""

    heartbeat: float = 15.0
    """Between pings."""
    missed_heartbeats: int = 3
    """So many heartbeats without a byte are the end of a connection."""
    stall_timeout: float = 30.0
    """How long a peer may read nothing while something is to be sent."""
    queue_frames: int = 256
    queue_bytes: int = 8 << 20
    max_line: int = SOFT_LINE
    window: int = 32
    """Requests that one agent works on at the same time, when it offers as many."""

    accept_timeout: float = 10.0
    """From the request to `accepting`."""
    run_timeout: float = 3600.0
    """From `accepting` to the result, for requests that bring no `max_duration_seconds`."""
    run_grace: float = 10.0
    """Beyond `max_duration_seconds`, before the request is cancelled."""
    cancel_grace: float = 10.0
    """From `cancel` to the result, before the connection is closed."""
    slot_timeout: float = 10.0
    """From the result to `completed`."""

    attempts: int = 3
    """How often work is begun."""
    deliveries: int = 100
    """How often work is sent that is never begun."""
    retry_min: float = 1.0
    retry_max: float = 60.0
    resend_max: float = 5.0
    """Before work that was sent and never begun is sent again."""
    expires_after: float = 86_400.0
    """How long work may wait to be begun, unless its caller says otherwise."""
    drain_timeout: float = 60.0
    """How long a drained agent may finish what it has, unless the operator says otherwise."""
    close_timeout: float = 1.0
    """What agents get to close their connections when the host stops."""

    most_work: int = 10_000
    """Requests that are not over; one more is refused."""
    most_bytes: int = 256 << 20
    """Of their content."""
    audit_content: bool = False
    """The audit trail keeps what frames say, and not only their hashes."""
