"""The limits of the listener, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from agent_common.protocol.work import SOFT_LINE


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Timeouts in seconds, sizes in bytes, and counts."""

    first_line_timeout: float = 10.0
    """From the connection to its first line."""
    handshake_timeout: float = 10.0
    """For each answer of the guest during the handshake."""
    first_line_bytes: int = 64 << 10
    """Longest line before the agent has proved who it is."""
    unproven: int = 256
    """Most connections whose agent has not proved who it is; one more ends the oldest of the address that has the
    most."""
    backlog: int = 1024
    """Connections that the kernel queues until they are accepted."""

    heartbeat: float = 15.0
    """Time between pings."""
    missed_heartbeats: int = 3
    """Pings without an answer after which a connection is closed."""
    stall_timeout: float = 30.0
    """How long a peer may read nothing while frames wait to be written."""
    queue_frames: int = 256
    queue_bytes: int = 8 << 20
    max_line: int = SOFT_LINE
    window: int = 32
    """Most requests that one agent may have at a time; an agent may offer fewer."""

    accept_timeout: float = 10.0
    """From sending a request to `accepting`."""
    run_timeout: float = 3600.0
    """From `accepting` to the result, for requests without `max_duration_seconds`."""
    run_grace: float = 10.0
    """Added to `max_duration_seconds` before the request is cancelled."""
    cancel_grace: float = 10.0
    """From `cancel` to the result, before the connection is closed."""
    slot_timeout: float = 10.0
    """From the result to `completed`."""

    attempts: int = 3
    """How often work may be started."""
    deliveries: int = 100
    """How often work may be sent without being started."""
    retry_min: float = 1.0
    retry_max: float = 60.0
    resend_max: float = 5.0
    """Longest pause before work that was sent and never started is sent again."""
    expires_after: float = 86_400.0
    """How long work may wait to be started, unless its caller gives a time."""
    return_timeout: float = 600.0
    """How long work that was sent waits at least for its agent, also if it has expired meanwhile."""
    drain_timeout: float = 60.0
    """How long a drained agent may take to finish its work, unless the operator gives a time."""
    close_timeout: float = 1.0
    """How long agents may take to close their connections when the host stops."""

    most_work: int = 10_000
    """Most open requests; one more is refused."""
    most_bytes: int = 256 << 20
    """Most bytes of the content of open requests."""
    audit_content: bool = False
    """Store the text of frames in the audit trail besides their hash."""
