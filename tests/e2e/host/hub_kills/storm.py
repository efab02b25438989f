"""Kill -9 of hubs, runtimes and agents while they talk, over links that are cut in the middle of frames."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from agent_testing.bridge import FakeBridge, Trip
from tests.integration.host.live import PATIENCE

from .faults import faults_of
from .world import HubKillWorld, free_ports

SEED = 21
MOST_SAID, MOST_SECONDS = 12, 2.0
"""The next kill comes after at most so many texts, or so many seconds."""
LOADED = 10
"""Each tenth kill waits until a text was said for each kill, and a link was cut for ten of them."""


async def storm(folder: Path, database: str | None, hosts: list[int], runtimes: int, speakers: int) -> None:
    ports = free_ports(len(hosts))
    async with AsyncExitStack() as stack:
        bridges = [
            await stack.enter_async_context(FakeBridge("tcp://127.0.0.1:0", f"tcp://127.0.0.1:{port}"))
            for port in ports
        ]
        urls = [bridge.url.replace("tcp://", "http://") for bridge in bridges]
        world = await asyncio.to_thread(HubKillWorld, folder, ports, urls, database)
        try:
            kills = Kills(world, bridges)
            await kills.run(hosts, runtimes, speakers)
            await asyncio.to_thread(world.finish)
            faults = faults_of(world)
            said, breaks, count = world.said(), kills.breaks(), kills.done.total()
            print(kills.done, f"{said} said, {breaks} links cut, {len(world.asked())} model calls")
        finally:
            await asyncio.to_thread(world.close)
    assert not faults, "\n".join(faults[:20])
    assert (count, said >= count, breaks >= count // LOADED) == (sum(hosts) + runtimes + speakers, True, True)


class Kills:
    """Kills one process after another, at moments that a seed chooses, and cuts links meanwhile."""

    def __init__(self, world: HubKillWorld, bridges: list[FakeBridge]) -> None:
        self._world, self._bridges = world, bridges
        self._random = random.Random(SEED)
        self.done: Counter[str] = Counter()

    async def run(self, hosts: list[int], runtimes: int, speakers: int) -> None:
        targets = [f"host {number}" for number, count in enumerate(hosts) for _ in range(count)]
        targets += ["runtime"] * runtimes + ["speaker"] * speakers
        self._random.shuffle(targets)
        for number, target in enumerate(targets, 1):
            await self._wait()
            self._cut()
            if number % LOADED == 0:
                await self._wait_for_load(number)
            await asyncio.to_thread(self._kill_of(target))
            self.done[target] += 1

    async def _wait(self) -> None:
        wanted = self._world.said() + self._random.randint(0, MOST_SAID)
        deadline = time.monotonic() + MOST_SECONDS
        while self._world.said() < wanted and time.monotonic() < deadline:
            await asyncio.sleep(0.01)

    async def _wait_for_load(self, kills: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self._world.said() < kills or self.breaks() < kills // LOADED:
                self._cut()
                await asyncio.sleep(0.2)

    def breaks(self) -> int:
        """How many links have broken within their frames."""
        return sum(bridge.counts.breaks for bridge in self._bridges)

    def _cut(self) -> None:
        """Have one link break within the next frames."""
        bridge = self._random.choice(self._bridges)
        if bridge.links:
            link = self._random.choice(bridge.links)
            direction = self._random.choice(("to_host", "to_guest"))
            bridge.trip(direction, Trip("rst", after=self._random.randint(1, 2000)), link)  # pyright: ignore[reportArgumentType]

    def _kill_of(self, target: str) -> Callable[[], None]:
        if target.startswith("host"):
            host = self._world.hosts[int(target[-1])]
            return lambda: (host.process.kill9(), host.start())[1]
        if target == "runtime":
            runtime = self._random.choice(self._world.runtimes)
            return lambda: (runtime.process.kill9(), runtime.start())[1]
        return self._random.choice(self._world.speakers).restart
