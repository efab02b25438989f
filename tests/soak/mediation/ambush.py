"""Deaths at every transition of the ledgers of both ends: whoever is to die is killed when a row has got there."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

from tests.soak.model import EFFECTS

from .errands import Errand, Operator, errand
from .ledgers import GUEST_STATE, HOST_STATE, Ledger
from .processes import Guest, HostLives

Side = Literal["host", "guest"]
HOST_STATES = (
    *("queued", "dispatched", "accepted", "retry_wait", "resulted", "delivered", "cancelled", "expired", "dead"),
)
GUEST_STATES = ("entered", "effect", "ended", "acked")
_NO_GUEST = frozenset({"expired", "dead"})
"""No guest ever hears of such a request."""
_TRIES = 4
_SECONDS = 20.0
_POLL = 0.001


@dataclass(frozen=True, slots=True)
class Ambush:
    """Kills one side when the ledger of one side has got somewhere."""

    victim: Side
    ledger: Side
    state: str

    def __str__(self) -> str:
        return f"{self.victim} at {self.ledger}:{self.state}"


def ambushes(dice: random.Random, rounds: int) -> list[Ambush]:
    """Each side dies at every transition of both ledgers so many times, in some order. No rounds: each side dies once
    at its own transitions, and at two of the other's."""
    own = [Ambush("host", "host", state) for state in HOST_STATES]
    own += [Ambush("guest", "guest", state) for state in GUEST_STATES]
    crossed = [Ambush("guest", "host", state) for state in HOST_STATES if state not in _NO_GUEST]
    crossed += [Ambush("host", "guest", state) for state in GUEST_STATES]
    plan = (own + crossed) * rounds if rounds else own + dice.sample(crossed, 2)
    dice.shuffle(plan)
    return plan


class Hunter:
    """Lays ambushes, one after the other."""

    def __init__(self, host: HostLives, ledger: Ledger, operator: Operator, dice: random.Random) -> None:
        self._host, self._ledger, self._operator, self._dice = host, ledger, operator, dice
        self.kills: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.errands: list[Errand] = []
        self._count = 0

    async def lay(self, ambush: Ambush, guest: Guest, seen: Ledger) -> None:
        """Until it has come off; a transition that is over before anybody looks is tried again."""
        for _ in range(_TRIES):
            if await self._once(ambush, guest, seen):
                self.kills[str(ambush)] += 1
                return
            self.missed[str(ambush)] += 1

    async def _once(self, ambush: Ambush, guest: Guest, seen: Ledger) -> bool:
        self._count += 1
        work = self._errand(ambush.state, guest)
        self.errands.append(work)
        async with self._set_up(ambush.state, guest, work):
            handing = asyncio.create_task(self._operator.submit(work))
            try:
                helping = asyncio.create_task(self._help(ambush.state, guest, work))
                reached = await self._until(lambda: self._is_there(ambush, guest, seen, work))
                if reached:
                    (self._host if ambush.victim == "host" else guest.life).kill()
                helping.cancel()
                await asyncio.gather(helping, return_exceptions=True)
                if reached:
                    (self._host if ambush.victim == "host" else guest.life).begin()
            finally:
                await handing
        if reached:
            await (self._host if ambush.victim == "host" else guest.life).ready()
        return reached

    def _errand(self, state: str, guest: Guest) -> Errand:
        slow = state in ("accepted", "retry_wait", "cancelled", "entered", "effect", "ended")
        plan = ("bash",) if state == "effect" else None
        work = errand(f"hunt-{self._count}-{state}", guest.id, self._dice, plan=plan, slow=slow)
        if state == "effect":
            work.orders = replace(work.orders, pace=0.0)
        work.too_large = state == "dead"
        work.expires_in = 0.3 if state == "expired" else None
        return work

    @asynccontextmanager
    async def _set_up(self, state: str, guest: Guest, work: Errand) -> AsyncGenerator[None]:
        """What must be so for the request to get there, and to stay a while."""
        if state in ("queued", "expired"):
            guest.bridge.host_is_down = True
            guest.bridge.cut()
            await self._until(lambda: not guest.bridge.links)
        try:
            yield
        finally:
            guest.bridge.host_is_down = False
            if state == "ended":
                guest.bridge.release("to_host")

    async def _help(self, state: str, guest: Guest, work: Errand) -> None:
        """Does what brings the request there."""
        match state:
            case "retry_wait" | "cancelled" | "ended":
                await self._until(lambda: self._state(work) == "accepted")
                if state == "retry_wait":
                    guest.bridge.host_is_down = True
                    guest.bridge.cut()
                elif state == "cancelled":
                    await self._operator.cancel(work)
                else:
                    guest.bridge.stall("to_host")
            case "delivered":
                await self._until(lambda: self._state(work) == "resulted")
                await self._operator.look(work)
            case _:
                return

    def _state(self, work: Errand) -> str | None:
        return self._ledger.peek(HOST_STATE, work.id)

    def _is_there(self, ambush: Ambush, guest: Guest, seen: Ledger, work: Errand) -> bool:
        if ambush.ledger == "host":
            return self._state(work) == ambush.state
        if ambush.state == "effect":
            file = guest.data / "workspace" / EFFECTS
            return file.exists() and f"{work.id}:" in file.read_text("utf-8")
        return seen.peek(GUEST_STATE, work.id) == ambush.state

    async def _until(self, holds: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + _SECONDS
        while not holds():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL)
        return True
