"""How patient the hub is, and how much it keeps at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_common.backoff import Backoff


@dataclass(frozen=True, slots=True)
class HubLimits:
    """Numbers that a host may choose."""

    max_attempts: int = 5
    """Deliveries of an envelope that is nacked each time, before it becomes a dead letter."""
    retry: Backoff = field(default_factory=lambda: Backoff(0.5, 60.0, jitter=0.2))
    """Pauses before an envelope is delivered again."""
    reread: Backoff = field(default_factory=lambda: Backoff(1.0, 15.0, jitter=0.2))
    """Pauses before a session whose log could not be read is read again."""
    invite_seconds: float = 30.0
    """Within which all who are invited must answer."""
    opened_bytes: int = 32 << 20
    """Most bytes of knobs, labels and variables in the open sessions of one creator, each of which counts 2 KiB
    besides."""
    live_tasks: int = 1000
    """Most tasks of one agent that are not over."""
    idle_deadlines: int = 10_000
    """Deadlines of tasks that are over meanwhile, which the hub may have in memory."""
    snapshot_every: int = 64
    """Envelopes between two snapshots of a session: a restart reads fewer than these."""
    lease_seconds: float = 10.0
    """Where hubs share a database: after which without a sign of life of a hub another one delivers to its agents."""
    poll_seconds: float = 1.0
    """Where hubs share a database: after which a hub looks for what the others have written, if nothing rings."""
    page: int = 64
    """Envelopes that are read from a log at once."""
    page_bytes: int = 512 << 10
    """Most bytes of a page of a log in one answer, unless one envelope is larger."""
