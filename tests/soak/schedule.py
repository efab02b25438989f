"""When the server dies: a function of the seed and of nothing else."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Literal

Aim = Literal["start", "time", "ack", "ask", "delta", "effect"]
_WEIGHTS: dict[Aim, int] = {"start": 12, "time": 20, "ack": 18, "ask": 16, "delta": 16, "effect": 18}
LONGEST = 1.5
"""Seconds that a life lasts at most, also when the moment aimed at does not come."""


@dataclass(frozen=True, slots=True)
class Kill:
    """The end of one life."""

    aim: Aim
    """While it starts; after a time; or at a moment: something was acknowledged, the model was asked, a reader saw a
    piece of a stream, a tool's effect was seen."""
    nth: int
    """How many such moments are let go by first."""
    seconds: float
    """From the start, from readiness, or behind the moment."""


def schedule(seed: int, kills: int) -> list[Kill]:
    """The kills of one run. A kill while the server starts is often followed by another."""
    dice = random.Random(seed)
    plan: list[Kill] = []
    while len(plan) < kills:
        aim = dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        plan.append(_kill(aim, dice))
        if aim == "start" and dice.random() < 0.5:
            plan.append(_kill("start", dice))
    return plan[:kills]


def _kill(aim: Aim, dice: random.Random) -> Kill:
    if aim == "start":
        return Kill(aim, 0, dice.uniform(0, 0.8))
    if aim == "time":
        return Kill(aim, 0, dice.uniform(0, LONGEST))
    behind = dice.choice((0.0, 0.0, dice.uniform(0, 0.005), dice.uniform(0, 0.06)))
    return Kill(aim, dice.choice((1, 1, 2, 3, 5, 8)), behind)


class Moments:
    """What is going on right now, for whoever waits for the right moment."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._counts: Counter[str] = Counter()

    def happened(self, what: str) -> None:
        with self._changed:
            self._counts[what] += 1
            self._changed.notify_all()

    def wait(self, what: str, more: int, timeout: float) -> bool:
        """Returns as soon as it has happened so many times more; False when that took too long."""
        with self._changed:
            goal = self._counts[what] + more
            return self._changed.wait_for(lambda: self._counts[what] >= goal, timeout)


def pause(seconds: float) -> None:
    """Lets the server live on for exactly so long: the time of death is what the schedule decides."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(left)
