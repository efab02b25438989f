"""Tell the host over a connection what state this agent is in."""

from __future__ import annotations

from agent_common.protocol.work import ConstraintAck, LifecycleSignal, SignalName, to_rfc3339

from ...ports import Clock
from ..constraints.constraint_payload import ActiveConstraints
from ..ledger.outbox import Outbox
from .connection import FrameConnection


class Signals:
    """Sends signals under the name that the host has given to this agent."""

    def __init__(self, connection: FrameConnection, clock: Clock, outbox: Outbox) -> None:
        self._connection = connection
        self._clock = clock
        self._outbox = outbox

    def send(self, name: SignalName, *, detail: str | None = None, error: str | None = None) -> None:
        now = to_rfc3339(self._clock.now_ms())
        self._connection.send(
            LifecycleSignal(signal=name, agent_id=self._outbox.agent_id, observed_at=now, detail=detail, error=error)
        )

    def acknowledge(self, constraints: ActiveConstraints) -> None:
        """Confirm which constraints are in force."""
        now = to_rfc3339(self._clock.now_ms())
        self._connection.send(
            ConstraintAck(
                version=constraints.version, hash=constraints.hash, agent_id=self._outbox.agent_id, observed_at=now
            )
        )
