"""One run: a host, its guests, a crowd of requests, bad weather on every connection, and a list of deaths."""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_testing import BridgeFaults, ScriptedProvider
from tests.soak.model import STORY, Model

from .ambush import Ambush, Hunter, ambushes
from .errands import Errand, Operator, errand
from .ledgers import Ledger
from .processes import Guest, HostLives, free_ports
from .verdict import figures, verdict

QUIET = 120.0
"""Seconds in which all work must be over once nothing dies or breaks any more."""
_LANES = 2
"""Guests that are waited for at the same time, beside the host. There must be more guests than that."""
_SECONDS_A_KILL = 1.5
"""About how long a death takes: the requests are spread over so long."""


@dataclass(slots=True)
class Outcome:
    """What a run found, and its figures."""

    title: str
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list[str])
    figures: dict[str, object] = field(default_factory=dict[str, object])


@dataclass(slots=True)
class World:
    """A host and its guests, attached or on their way."""

    folder: Path
    model: Model
    host: HostLives
    ledger: Ledger
    operator: Operator
    guests: list[Guest]
    seen: list[Ledger]
    """The guests' ledgers."""


@asynccontextmanager
async def world(folder: Path, agents: int) -> AsyncGenerator[World]:
    """All processes up; at the end all are gone."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        model = Model(lambda: 0)
        provider = stack.enter_context(ScriptedProvider(model))
        ports = free_ports()
        host = HostLives(folder, ports)
        stack.callback(host.end)
        host.begin()
        await host.ready()
        operator = Operator(host.url)
        stack.push_async_callback(operator.close)
        guests = [Guest(number, folder, provider.url, host.target, ports) for number in range(agents)]
        for guest in guests:
            guest.key(await operator.enrol(guest.id))
            await guest.bridge.__aenter__()
            stack.push_async_callback(guest.calm)
            stack.callback(guest.life.end)
            (guest.data / "workspace").mkdir(parents=True)
            (guest.data / "workspace" / STORY).write_text("It was a dark and stormy night.\n" * 30, "utf-8")
            guest.life.begin()
        for guest in guests:
            await guest.life.ready()
        ledger, seen = Ledger(host.database), [Ledger(guest.database) for guest in guests]
        for one in (ledger, *seen):
            stack.callback(one.close)
        yield World(folder, model, host, ledger, operator, guests, seen)


def weather(seed: int) -> BridgeFaults:
    """What a connection has to endure: something every few seconds."""
    return BridgeFaults(
        seed=seed,
        breaks_per_minute=6,
        cuts_per_minute=6,
        stalls_per_minute=4,
        half_closes_per_minute=4,
        reorders_per_minute=4,
        snapshots_per_minute=3,
        refusals_per_minute=2,
        severs_per_minute=1,
        flaps_per_minute=0.5,
        floods_per_minute=1,
        longest_flap=0.5,
        longest_flood=0.5,
        longest_stall=1.0,
        flood_rate=100,
    )


class Storm:
    """A run of the first kind: everything at once."""

    def __init__(self, place: World, seed: int, requests: int, plan: list[Ambush]) -> None:
        self.place, self.plan, self.dice = place, plan, random.Random(seed)
        self.hunter = Hunter(place.host, place.ledger, place.operator, random.Random(seed + 1))
        count = max(0, requests - len(plan))
        ids = [guest.id for guest in place.guests]
        self.crowd = [errand(f"work-{n}", ids[n % len(ids)], self.dice, slow=n % 25 == 0) for n in range(count)]
        self.took = 0.0
        self._seed = seed
        self._hurry = asyncio.Event()
        self._hunted: set[int] = set()

    @property
    def errands(self) -> list[Errand]:
        return [*self.crowd, *self.hunter.errands]

    async def run(self) -> None:
        for number, guest in enumerate(self.place.guests):
            await guest.weather(weather(self._seed * 1000 + number))
        handing = [asyncio.create_task(self._hand_in(guest)) for guest in self.place.guests]
        try:
            deaths = [[one for one in self.plan if one.victim == "host"]]
            deaths += [[one for one in self.plan if one.victim == "guest"][lane::_LANES] for lane in range(_LANES)]
            async with asyncio.TaskGroup() as group:
                for number, lane in enumerate(deaths):
                    group.create_task(self._die(lane, random.Random(f"{self._seed} lane {number}")))
        finally:
            self._hurry.set()
            await asyncio.gather(*handing)
        for guest in self.place.guests:
            await guest.weather(None)
        self.took = await over(self.place.operator, self.errands, QUIET)

    async def _die(self, plan: list[Ambush], dice: random.Random) -> None:
        """One ambush after the other, each on a guest that nobody else is after."""
        for ambush in plan:
            target = dice.choice([n for n in range(len(self.place.guests)) if n not in self._hunted])
            self._hunted.add(target)
            await self.hunter.lay(ambush, self.place.guests[target], self.place.seen[target])
            self._hunted.discard(target)

    async def _hand_in(self, guest: Guest) -> None:
        """The requests of one guest, one after the other with pauses, without waiting for what becomes of them."""
        mine = [work for work in self.crowd if work.workspace == guest.id]
        dice = random.Random(f"{self._seed} {guest.id}")
        mean = len(self.plan) * _SECONDS_A_KILL / max(1, len(mine))
        for work in mine:
            if not self._hurry.is_set():
                try:
                    async with asyncio.timeout(dice.expovariate(1 / mean)):
                        await self._hurry.wait()
                except TimeoutError:
                    pass
            await self.place.operator.submit(work, again=dice.random() < 0.1)
            if dice.random() < 0.02:
                await self.place.operator.cancel(work)


async def over(operator: Operator, errands: list[Errand], seconds: float) -> float:
    """Waits until all are over; how long the last has taken. What is not over in time is a fault."""
    began = time.monotonic()
    left = list(errands)
    while left:
        left = [work for work in left if not await operator.look(work)]
        if left and time.monotonic() - began > seconds:
            operator.faults += [f"{work.id} of {work.workspace} is not over after {seconds:g} quiet s" for work in left]
            break
        await asyncio.sleep(0.2 if left else 0)
    return time.monotonic() - began


async def storm(seed: int, requests: int, agents: int, folder: Path, *, rounds: int = 2) -> Outcome:
    """Breaks, stalls and deaths, then calm, then the verdict. `rounds`: how often each side dies at each transition of
    both ledgers; 0: at its own ones, once."""
    outcome = Outcome(f"storm: seed {seed}, {requests} requests over {agents} agents")
    began = time.monotonic()
    async with world(folder, agents) as place:
        up = time.monotonic() - began
        dice = random.Random(seed)
        plan = ambushes(dice, rounds)
        run = Storm(place, seed, requests, plan)
        try:
            await run.run()
        except Exception:  # noqa: BLE001  what was found until then must not be lost
            place.operator.faults.append(f"the run broke off:\n{traceback.format_exc()}")
        outcome.faults = [*place.operator.faults, *verdict(place, run.errands)]
        missing = {str(ambush) for ambush in plan} - run.hunter.kills.keys()
        outcome.faults += [f"nobody died as planned: {ambush}" for ambush in sorted(missing)]
        outcome.figures = {
            "seconds to start all, to the last end": f"{up:.0f}, {run.took:.1f} after the storm",
            **deaths(run.hunter),
            **figures(place, run.errands),
        }
    outcome.seconds = time.monotonic() - began
    return outcome


def deaths(hunter: Hunter) -> dict[str, object]:
    """How often each side died at each transition."""
    told: dict[str, object] = {}
    for side in ("host", "guest"):
        mine = {name: n for name, n in hunter.kills.items() if name.startswith(f"{side} at")}
        told[f"kills of {'the host' if side == 'host' else 'guests'}"] = sum(mine.values())
        told |= {f"  {name}": count for name, count in sorted(mine.items())}
    missed: Counter[str] = hunter.missed
    told["transitions that nobody saw in time"] = sum(missed.values())
    return told
