"""Report whether a workspace can be given work. An open address is not enough: an agent must be attached and ready."""

from __future__ import annotations

from dataclasses import dataclass

from agent_common.clock import Clock
from agent_common.net import Endpoint
from agent_common.protocol.work import to_rfc3339

from ..channels.channel import WorkspaceChannel
from .dispatcher import SendGate

GUEST_PORT = 2048
"""The vsock port that guests dial."""


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
    """The address that the workspace's agent connects to, or None if there is none."""
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
    """Return the readiness of the channel's workspace.

    `address`: where its agent connects, or None if there is no such address. `reachable`: whether the address accepts
    connections.
    """
    session = channel.session
    if not reachable and channel.fence is None:  # the address of a fenced workspace is closed on purpose
        code = "target_unreachable"
    else:
        blocked = gate.blocked_by(channel)
        code = None if blocked == "window_full" else blocked
    return Readiness(
        ready=code is None,
        observed_at=to_rfc3339(clock.now_ms()),
        detail=_describe(channel, address, reachable, code),
        error=_error_of(code) if code is not None and channel.required else None,
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


def _error_of(code: str) -> str:
    """Return the supervisor's words for a required channel that is not ready."""
    if code == "target_unreachable":
        return "required mediation target is unreachable"
    return "required mediation is not ready"


def _describe(channel: WorkspaceChannel, address: Endpoint | None, reachable: bool, code: str | None) -> str:
    """Return how the channel is declared, whether its address is reachable, and whether an agent is attached."""
    required = str(channel.required).lower()
    target = str(address or "none").removeprefix("tcp://")
    declaration = f"mediation required={required} failClosed={required} port={GUEST_PORT} target={target}"
    reachability = f"mediation target {'reachable' if reachable else 'unreachable'} at {target}"
    attachment = f"agent attached in epoch {channel.session.epoch}" if channel.session else "no agent attached"
    blocked = f"{code}, " if code else ""
    return f"{declaration}; {reachability}; {blocked}{attachment}, dialect={channel.dialect} auth={channel.auth}"
