"""How often an agent may call a service: a bucket of tokens for each pair, that fills again evenly."""

from __future__ import annotations

import math

from agent_common.clock import Clock

from ..errors import TooMany
from .catalog import Service

_MOST_BUCKETS = 10_000


class ServiceRates:
    """The buckets of all agents and services."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}
        """Calls that are left, and when that was so."""

    def spend(self, service: Service, agent_id: str) -> None:
        """Count a call. Raises TooMany if the agent has none left."""
        rate = service.rate
        if rate is None:
            return
        now = self._clock.monotonic()
        key = service.name, agent_id
        left, at = self._buckets.get(key, (float(rate.calls), now))
        left = min(float(rate.calls), left + (now - at) * rate.calls / rate.seconds)
        if left < 1:
            wait = math.ceil((1 - left) * rate.seconds / rate.calls)
            text = f"you may call {service.name} {rate.calls} times in {rate.seconds:g} s"
            raise TooMany(text, code="rate_limited", headers={"retry-after": str(wait)})
        if len(self._buckets) >= _MOST_BUCKETS:
            self._drop_least_recent()
        self._buckets[key] = left - 1, now

    def _drop_least_recent(self) -> None:
        """Forget the half that was used least recently; the longest wait is an hour, after which a bucket is full."""
        latest = sorted(self._buckets.items(), key=lambda one: one[1][1], reverse=True)
        self._buckets = dict(latest[: _MOST_BUCKETS // 2])
