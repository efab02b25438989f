"""Probes by the hundred: connections that are made and ended without a word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent_common.net import Endpoint

from .bridge_clock import BridgeClock
from .readiness import PROBE_SECONDS
from .sockets import How, dial, hang_up


async def flood(
    endpoint: Endpoint, count: int, rate: float, how: How, clock: BridgeClock, on_probe: Callable[[], None]
) -> int:
    """Connects so many times, `rate` a second at most, one after another; how often it succeeded."""
    begun = clock.monotonic()
    reached = 0
    for number in range(count):
        if (early := begun + number / rate - clock.monotonic()) > 0:
            await clock.sleep(early)
        on_probe()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                hang_up(await dial(endpoint), how)
            reached += 1
        except OSError:
            await asyncio.sleep(0)  # a refusal takes no time, and others want theirs
    return reached
