"""Connections that are cut every 50 ms: what it costs both ends, and that the work ends all the same."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from .driver import Outcome, World, over, world
from .errands import Errand, errand
from .verdict import figures, verdict

EVERY = 0.05
AFTERWARDS = 30.0
"""Seconds from the last cut in which all work must be over."""
MOST_CPU = 30.0
"""Percent of a core that a guest may use meanwhile, the work that it does included."""
MOST_GROWTH = 6.0
"""MiB that an end may have grown by between the middle and the end: a leak per connection would show."""
_WARM = 6
_MIB = 1 << 20


@dataclass(slots=True)
class Meter:
    """What a process uses."""

    name: str
    process: psutil.Process
    cpu: float = 0.0
    """Seconds at the beginning."""
    sizes: list[float] = field(default_factory=list[float])
    """MiB, one a second."""

    def begin(self) -> None:
        self.cpu = self._used()

    def tick(self) -> None:
        self.sizes.append(self.process.memory_info().rss / _MIB)

    def percent(self, seconds: float) -> float:
        return 100 * (self._used() - self.cpu) / seconds

    @property
    def growth(self) -> float:
        """MiB since the middle; the middle of each half, for single values jump."""
        half = len(self.sizes) // 2
        return _middle(self.sizes[-half:][-5:]) - _middle(self.sizes[:half][-5:])

    def _used(self) -> float:
        times = self.process.cpu_times()
        return times.user + times.system


async def flapping(seed: int, seconds: float, folder: Path, agents: int = 2) -> Outcome:
    """Requests come all the time while every connection is cut every 50 ms."""
    outcome, began = Outcome(f"flapping: seed {seed}, every {EVERY * 1000:g} ms for {seconds:g} s"), time.monotonic()
    dice = random.Random(seed)
    async with world(folder, agents) as place:
        warm = [errand(f"warm-{n}-{guest.id}", guest.id, dice) for guest in place.guests for n in range(_WARM)]
        for work in warm:
            await place.operator.submit(work)
        await over(place.operator, warm, AFTERWARDS)
        meters = [Meter("host", psutil.Process(place.host.pid))]
        meters += [Meter(guest.id, psutil.Process(guest.life.pid)) for guest in place.guests]
        for meter in meters:
            meter.begin()
        started = time.monotonic()
        errands = await _flap(place, seconds, dice, meters)
        lasted = time.monotonic() - started
        used = {meter.name: meter.percent(lasted) for meter in meters}
        late = await over(place.operator, errands, AFTERWARDS)
        outcome.faults = [*place.operator.faults, *verdict(place, [*warm, *errands])]
        outcome.faults += [
            f"{name} used {percent:.0f} % of a core"
            for name, percent in used.items()
            if percent > MOST_CPU and name != "host"
        ]
        outcome.faults += [
            f"{meter.name} has grown by {meter.growth:.1f} MiB since the middle: {meter.sizes}"
            for meter in meters
            if meter.growth > MOST_GROWTH
        ]
        for meter in meters:
            sizes = f"{meter.sizes[0]:.1f} MiB to {meter.sizes[-1]:.1f} MiB, {meter.growth:+.1f} in the second half"
            outcome.figures[meter.name] = f"{used[meter.name]:.1f} % of a core, {sizes}"
        outcome.figures["requests handed in meanwhile"] = len(errands)
        outcome.figures["seconds to the last end"] = f"{late:.1f}"
        outcome.figures |= figures(place, [*warm, *errands])
    outcome.seconds = time.monotonic() - began
    return outcome


async def _flap(place: World, seconds: float, dice: random.Random, meters: list[Meter]) -> list[Errand]:
    """What was handed in meanwhile."""
    flaps = [asyncio.create_task(guest.bridge.flap(EVERY, seconds)) for guest in place.guests]
    errands: list[Errand] = []
    try:
        while not all(task.done() for task in flaps):
            for guest in place.guests:
                errands.append(errand(f"flap-{len(errands)}", guest.id, dice))
                await place.operator.submit(errands[-1])
            for meter in meters:
                meter.tick()
            await asyncio.wait(flaps, timeout=1.0)
    finally:
        await asyncio.gather(*flaps)
    return errands


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
