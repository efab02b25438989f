"""Whether a workspace can be given work, from end to end: that somebody listens proves only half of it."""

from __future__ import annotations

from dataclasses import dataclass

from agent_runtime.net import Endpoint
from agent_runtime.protocol.work import stamp

from .channel import Channel
from .parts import Parts


@dataclass(frozen=True, slots=True)
class Readiness:
    """The first four names are those of the microVM supervisor's own `mediationReady`."""

    ready: bool
    """All of what follows holds, and work would be sent."""
    observed_at: str
    detail: str
    error: str | None
    """Why it is not ready; a stable code."""
    target: str | None
    target_reachable: bool
    """Somebody listens: all that a supervisor can tell."""
    attached: bool
    """An agent is there and has proved who it is."""
    epoch: int
    acked_version: int | None
    """The constraints that it has acknowledged."""
    heartbeat_age_s: float | None
    """Seconds since its last byte."""
    in_flight: int
    queued: int


def readiness(parts: Parts, channel: Channel, address: Endpoint | None, reachable: bool) -> Readiness:
    session = channel.session
    closed = parts.dispatch.closed(channel)
    error = None if closed == "window_full" else closed
    error = error if reachable or channel.fence else "target_unreachable"  # who is fenced has no address
    where = str(address) if address else "no address"
    state = session.state if session else "gone"
    return Readiness(
        ready=error is None,
        observed_at=stamp(parts.clock.now_ms()),
        detail=f"dialect={channel.dialect} auth={channel.auth} target={where} state={state}",
        error=error,
        target=str(address) if address else None,
        target_reachable=reachable,
        attached=session is not None,
        epoch=session.epoch if session else channel.epoch,
        acked_version=session.acked.version if session and session.acked else None,
        heartbeat_age_s=round(parts.clock.monotonic() - session.wire.seen, 3) if session else None,
        in_flight=len(session.slots) if session else 0,
        queued=len(channel.queue) + len(channel.lost),
    )


def gauges(parts: Parts, unproven: int) -> dict[str, tuple[str, float]]:
    """What is so at this moment."""
    sessions = [channel.session for channel in parts.channels if channel.session is not None]
    return {
        "attached": ("Agents that are attached.", len(sessions)),
        "ready": ("Agents that may be given work.", sum(session.state == "ready" for session in sessions)),
        "unproven": ("Connections that have proved nothing yet.", unproven),
        "open_requests": ("Requests that are not over.", len(parts.ledger.active)),
        "in_flight": ("Requests that agents have.", sum(len(session.slots) for session in sessions)),
        "commits": ("Commits of the ledger in this life.", parts.journal.commits),
    }
