"""Report whether a workspace can be given work. An open address is not enough: an agent must be attached and ready."""

from __future__ import annotations

from dataclasses import dataclass

from agent_common.clock import Clock
from agent_common.net import Endpoint
from agent_common.protocol.work import to_rfc3339

from ..channels.channel import WorkspaceChannel
from ..channels.workspace_channels import WorkspaceChannels
from .dispatcher import SendGate

GUEST_PORT = 2048
"""The vsock port that guests dial."""
_ERRORS = {"target_unreachable": "required mediation target is unreachable"}


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a workspace can be given work, and why not.

    `ready`, `detail` and `error` use the words of the microVM supervisor's own `mediationReady`.
    """

    ready: bool
    """Whether work would be sent now. A full window does not count against it."""
    observed_at: str
    detail: str
    """How the channel is declared, and its state."""
    error: str | None
    """Set if the channel is required and not ready, else None."""
    code: str | None
    """Why the channel is not ready, as a stable code; None when it is."""
    target: str | None
    target_reachable: bool
    """Whether the address accepts connections, which is all that a supervisor can check."""
    attached: bool
    """Whether an agent is connected and has proved who it is."""
    epoch: int
    acked_version: int | None
    """The version of the constraints that the agent has acknowledged, or None."""
    heartbeat_age_s: float | None
    """Seconds since the agent's last byte; None if no agent is attached."""
    in_flight: int
    queued: int


def build_readiness(
    channel: WorkspaceChannel, address: Endpoint | None, *, reachable: bool, gate: SendGate, clock: Clock
) -> Readiness:
    """Report on a workspace. `address`: of its agent's channel, or None. `reachable`: it accepts connections."""
    session = channel.session
    blocked = gate.blocked_by(channel)
    code = None if blocked == "window_full" else blocked
    code = code if reachable or channel.fence else "target_unreachable"  # a fenced workspace has no address
    return Readiness(
        ready=code is None,
        observed_at=to_rfc3339(clock.now_ms()),
        detail=_detail(channel, address, reachable, code),
        error=_ERRORS.get(code, "required mediation is not ready") if code and channel.required else None,
        code=code,
        target=str(address) if address else None,
        target_reachable=reachable,
        attached=session is not None,
        epoch=session.epoch if session else channel.epoch,
        acked_version=session.acked.version if session and session.acked else None,
        heartbeat_age_s=round(clock.monotonic() - session.last_received_at, 3) if session else None,
        in_flight=len(session.slots) if session else 0,
        queued=len(channel.queue) + len(channel.lost),
    )


def _detail(channel: WorkspaceChannel, address: Endpoint | None, reachable: bool, code: str | None) -> str:
    required, target = str(channel.required).lower(), str(address or "none").removeprefix("tcp://")
    declared = f"mediation required={required} failClosed={required} port={GUEST_PORT} target={target}"
    found = f"mediation target {'reachable' if reachable else 'unreachable'} at {target}"
    agent = f"agent attached in epoch {channel.session.epoch}" if channel.session else "no agent attached"
    why = f"{code}, " if code else ""
    return f"{declared}; {found}; {why}{agent}, dialect={channel.dialect} auth={channel.auth}"


def gauges(
    channels: WorkspaceChannels, *, unproven: int, open_requests: int, commits: int
) -> dict[str, tuple[str, float]]:
    """Return the current values of the gauges, as name to help text and value."""
    sessions = [channel.session for channel in channels if channel.session is not None]
    return {
        "attached": ("Agents that are attached.", len(sessions)),
        "ready": ("Agents that may be given work.", sum(session.state == "ready" for session in sessions)),
        "unproven": ("Connections whose agent has not proved who it is.", unproven),
        "open_requests": ("Requests that are not over.", open_requests),
        "in_flight": ("Requests that agents have.", sum(len(session.slots) for session in sessions)),
        "commits": ("Commits of the ledger since the host started.", commits),
    }
