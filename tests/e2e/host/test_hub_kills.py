"""Kill -9 of hubs, runtimes and agents while they talk, over links that are cut in the middle of frames."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agent_testing.bridge import FakeBridge, Trip
from tests.integration.host.live import PATIENCE
from tests.unit.host.postgresql import new_database, postgresql

from .hub_kills.world import HubKillWorld, asked_for, free_ports

SEED = 21
MOST_SAID, MOST_SECONDS = 12, 2.0
"""The next kill comes after at most so many texts, or so many seconds."""
LOADED = 10
"""Each tenth kill waits until a text was said for each kill, and a link was cut for ten of them."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


async def test_a_hub_loses_nothing_and_repeats_nothing_over_two_hundred_kills(tmp_path: Path) -> None:
    await storm(tmp_path, None, hosts=[70], runtimes=70, speakers=60)


async def test_two_hubs_on_one_database_neither(tmp_path: Path) -> None:
    with postgresql() as server:
        await storm(tmp_path, new_database(server, "kills"), hosts=[50, 50], runtimes=50, speakers=50)


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
            print(kills.done, f"{said} said, {breaks} links cut, {len(world.provider.completions)} model calls")
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


def faults_of(world: HubKillWorld) -> list[str]:
    """What is lost, repeated or out of order."""
    faults: list[str] = []
    answered_at: dict[str, float] = {}
    for speaker in world.speakers:
        session_id, *acknowledged = speaker.acknowledged()
        log = world.log(session_id)
        if [one["sequence"] for one in log] != list(range(1, len(log) + 1)):
            faults.append(f"{speaker.name}: the sequence has gaps")
        ids = [one["envelope_id"] for one in log]
        if ids != sorted(set(ids)):
            faults.append(f"{speaker.name}: ids are repeated, or not in order")
        texts = [one for one in log if one["event_data"].get("text")]
        said = [one for one in texts if one["causation_id"] is None]
        if [one["envelope_id"] for one in said] != acknowledged:
            faults.append(
                f"{speaker.name}: {len(acknowledged)} acknowledged, {len(said)} in the log, or in another order"
            )
        expected = [(one["envelope_id"], f"answer to {speaker.name}-{n}") for n, one in enumerate(said)]
        answers = [one for one in texts if one["causation_id"] is not None]
        if [(one["causation_id"], one["event_data"]["text"]) for one in answers] != expected:
            faults.append(f"{speaker.name}: {len(said)} said, {len(answers)} answers, or in another order")
        for number, one in enumerate(answers):
            answered_at[f"{speaker.name}-{number}"] = one["created_at"] / 1000
    offset = time.time() - time.monotonic()
    for request in world.provider.completions:
        text = asked_for(request)
        if request.received_at + offset > answered_at.get(text, 0.0):
            faults.append(f"the model was asked for {text} when it was answered")
    dead = world.hosts[0].operator.get("/hub/dead-letters").json()["dead_letters"]
    return [*faults, *(f"dead letter: {one}" for one in dead)]
