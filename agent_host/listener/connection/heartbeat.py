"""Ping an attached agent, and end its session when it stays silent."""

from __future__ import annotations

from agent_common.clock import Clock
from agent_common.protocol.work import Ping

from ..channels.channel import AttachedAgent
from ..limits import ListenerLimits
from ..timers import Timer, Timers
from .socket import AgentConnection


class Heartbeat:
    """Pings one agent, and ends its session after too many pings without an answer."""

    __slots__ = ("_clock", "_connection", "_limits", "_missed", "_pinged_at", "_pings", "_session", "_timer", "_timers")

    def __init__(
        self,
        session: AttachedAgent,
        connection: AgentConnection,
        *,
        timers: Timers,
        clock: Clock,
        limits: ListenerLimits,
    ) -> None:
        self._session = session
        self._connection = connection
        self._timers = timers
        self._clock = clock
        self._limits = limits
        self._pings = self._missed = 0
        self._pinged_at = clock.monotonic()
        self._timer: Timer = self._schedule()

    def stop(self) -> None:
        self._timer.cancel()

    def _schedule(self) -> Timer:
        return self._timers.call_later(self._limits.heartbeat, self._on_due)

    def _on_due(self) -> None:
        """Count unanswered pings rather than seconds, because a host that was itself suspended has received nothing."""
        paused = self._session.channel.paused
        silent = self._connection.last_received_at < self._pinged_at and not paused and not self._connection.holding
        self._missed = self._missed + 1 if silent else 0
        if self._missed >= self._limits.missed_heartbeats - 1:
            self._session.end("heartbeat_lost", abruptly=True)
            return
        self._pinged_at = self._clock.monotonic()
        self._pings += 1
        if not paused:
            self._session.send(Ping(n=self._pings), droppable=True)
        self._timer = self._schedule()
