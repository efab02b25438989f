"""Notice a host that says nothing any more."""

from __future__ import annotations

import asyncio
import itertools
import math

from agent_common.protocol.work import Ping

from ...ports import Clock
from .connection import FrameConnection

SILENT_BEATS = 3


async def send_heartbeats(connection: FrameConnection, clock: Clock, every: float) -> None:
    """Ping a host that has welcomed us, and abort the connection if it does not answer. Unanswered pings are counted,
    not seconds, because a machine that was suspended has received nothing either."""
    asked_at = -math.inf
    missed = 0
    for number in itertools.count(1):
        await asyncio.sleep(every)
        missed = missed + 1 if connection.last_received_at < asked_at else 0
        if missed >= SILENT_BEATS - 1:
            connection.abort(f"the host has said nothing for {every * SILENT_BEATS:g} s")
            return
        asked_at = clock.monotonic()
        connection.send(Ping(n=number), droppable=True)
