"""Carries out a schedule of faults on a bridge."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from .byte_pump import Trip
from .faults import Event
from .link import BridgeLink
from .schedule import schedule

if TYPE_CHECKING:
    from .fake import FakeBridge

MOST_HISTORY = 10_000
MAX_CONCURRENT = 64
"""Faults that last at the same time; the schedule waits when there are more."""


class FaultScript:
    """`history` has the events that were carried out, oldest first; of very many the latest."""

    def __init__(self, bridge: FakeBridge) -> None:
        self.history: deque[Event] = deque(maxlen=MOST_HISTORY)
        self._bridge = bridge
        self._lasting: set[asyncio.Task[Any]] = set()
        self._outages = 0

    async def run(self) -> None:
        """Plays until cancelled, or as long as there are faults; what lasts ends with it."""
        pace = self._bridge.clock
        begun = pace.monotonic()
        async with asyncio.TaskGroup() as group:
            for event in schedule(self._bridge.faults):
                await pace.sleep(begun + event.at - pace.monotonic())
                lasting = self._apply(event)
                self.history.append(event)
                self._bridge.counts.events += 1
                self._bridge.notify_waiters()
                if lasting is not None:
                    task = group.create_task(lasting)
                    self._lasting.add(task)
                    task.add_done_callback(self._lasting.discard)
                while len(self._lasting) >= MAX_CONCURRENT:
                    await asyncio.wait(self._lasting, return_when=asyncio.FIRST_COMPLETED)

    def _apply(self, event: Event) -> Coroutine[Any, Any, Any] | None:
        """Does what is done at once, and gives what takes its time."""
        faults = self._bridge.faults
        match event.kind:
            case "flood":
                count = round(faults.flood_rate * event.seconds)
                return self._bridge.flood(count, rate=faults.flood_rate, how=event.how)
            case "flap":
                return self._bridge.flap(faults.flap_every, event.seconds, event.how)
            case "refuse" | "sever":
                return self._outage(event)
            case "reorder":
                return self._reorder(event)
            case "snapshot":
                self._bridge.snapshot()
                return None
            case _:
                return self._apply_to_one(event)

    def _apply_to_one(self, event: Event) -> Coroutine[Any, Any, Any] | None:
        """What hits one connection, if there is one."""
        links = self._bridge.links
        if not links:
            return None
        link = links[int(event.pick * len(links))]
        match event.kind:
            case "stall":
                return self._stall(event, link)
            case "cut":
                link.arm(event.direction, Trip(event.how, after=event.count))
            case "half_close":
                link.half_close(event.direction)
            case _:
                self._bridge.cut(None if event.all else link, how=event.how)
        return None

    async def _stall(self, event: Event, link: BridgeLink) -> None:
        self._bridge.stall(event.direction, link)
        await self._bridge.clock.sleep(event.seconds)
        self._bridge.release(event.direction, link)

    async def _reorder(self, event: Event) -> None:
        links = self._bridge.reorder(event.how)
        await self._bridge.clock.sleep(event.seconds)
        for link in links:
            self._bridge.release_eof("to_host", link)

    async def _outage(self, event: Event) -> None:
        """Outages may overlap; the last to end opens again."""
        self._outages += 1
        if event.kind == "refuse":
            self._bridge.refuse()
        else:
            self._bridge.sever()
        await self._bridge.clock.sleep(event.seconds)
        self._outages -= 1
        if not self._outages:
            self._bridge.restore()
