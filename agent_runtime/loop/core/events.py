"""Send lifecycle events to watchers, and again to those that come back (docs/protocols/chat.md#events)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from agent_common.event_ring import EventRing, RingLimits

from ...ports import Clock


class EventBus:
    """The latest events of the runtime, each for one principal or for all."""

    def __init__(self, clock: Clock, limits: RingLimits | None = None) -> None:
        self._ring: EventRing[str | None] = EventRing(clock, limits)

    def emit(self, kind: str, principal: str | None, /, **facts: Any) -> None:
        self._ring.append(kind, principal, facts, owner=principal or "")

    def watch(self, principal: str | None, after: int | None = None) -> AsyncGenerator[bytes]:
        """Return the events after the id `after`, or from now on, as server-sent events. A principal of None: those of
        all principals. Raises TooManyWatchers."""
        return self._ring.follow(
            lambda whose: whose is None or principal in (None, whose), after=after, holder=principal or ""
        )

    def close(self) -> None:
        """End the stream of every watcher."""
        self._ring.close()
