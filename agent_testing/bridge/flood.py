"""Probes by the hundred: connections that are made and ended without a word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent_common.net import Endpoint

from .pace import BridgePace
from .readiness import PROBE_SECONDS
from .sockets import How, dial, hang_up


async def flood(
    endpoint: Endpoint, count: int, rate: float, how: How, pace: BridgePace, tally: Callable[[], None]
) -> int:
    """Connects so many times, `rate` a second at most, one after another; how often it succeeded."""
    begun = pace.monotonic()
    reached = 0
    for number in range(count):
        if (early := begun + number / rate - pace.monotonic()) > 0:
            await pace.sleep(early)
        tally()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                hang_up(await dial(endpoint), how)
            reached += 1
        except OSError:
            await asyncio.sleep(0)  # a refusal takes no time, and others want theirs
    return reached
