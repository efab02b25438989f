"""`mediationReady` as the supervisor computes it: whether somebody listens at the target, and nothing more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent_common.net import Endpoint, Tcp

from .bridge_clock import BridgeClock
from .sockets import dial

PROBE_SECONDS = 0.15
RUNNING = "running"


@dataclass(frozen=True, slots=True)
class BridgeChannel:
    """The declaration of a channel, of which readiness speaks. Raises ValueError for what the platform refuses."""

    port: int = 2048
    """The guest's vsock port."""
    required: bool = True
    fail_closed: bool = True

    def __post_init__(self) -> None:
        if self.required and not self.fail_closed:
            raise ValueError("a required channel is fail_closed; set fail_closed, or required to false")

    def describe(self, target: str) -> str:
        required, closed = str(self.required).lower(), str(self.fail_closed).lower()
        return f"mediation required={required} failClosed={closed} port={self.port} target={target}"


@dataclass(frozen=True, slots=True)
class MediationReady:
    """What the workspace's status says of its channel."""

    ready: bool
    observed_at: str
    """RFC 3339, UTC."""
    detail: str
    error: str | None = None
    """Only of a required channel."""

    def to_json(self) -> dict[str, Any]:
        """The platform's names; an `error` that is not there is left out."""
        found: dict[str, Any] = {"ready": self.ready, "observedAt": self.observed_at, "detail": self.detail}
        return found if self.error is None else {**found, "error": self.error}


async def probe(channel: BridgeChannel, target: Endpoint, state: str, clock: BridgeClock) -> MediationReady:
    """One connect, 150 ms at most, closed at once. A target that is not `tcp` cannot be declared and is invalid."""
    shown = str(target).removeprefix("tcp://")
    detail = channel.describe(shown)
    observed = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).isoformat(timespec="milliseconds")

    def found(why: str, error: str | None = None) -> MediationReady:
        stamp = observed.replace("+00:00", "Z")
        return MediationReady(error is None, stamp, f"{detail}; {why}", error if channel.required else None)

    if state != RUNNING:
        return found("workspace is not running", "required mediation is not ready")
    if not isinstance(target, Tcp):
        return found("mediation target is not tcp host:port", "required mediation target is invalid")
    begun = clock.monotonic()
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            (await dial(target)).close()
    except OSError as error:  # TimeoutError is one
        took, why = _milliseconds(clock.monotonic() - begun), str(error) or "i/o timeout"
        return found(
            f"mediation target unreachable at {shown} after {took}: {why}", "required mediation target is unreachable"
        )
    return found(f"mediation target reachable at {shown} in {_milliseconds(clock.monotonic() - begun)}")


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
