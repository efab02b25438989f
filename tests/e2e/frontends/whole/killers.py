"""Kills the processes of a world, one after the other, at moments that a seed chooses: after so much has happened."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Self

from .world import World

Target = Literal["bots", "host", "agent"]
MOST_CALLS = {"bots": 40, "host": 8, "agent": 8}
"""Of the bots at the platforms, or of the agent at its model: the most that happen before the next kill."""
MOST_SECONDS = {"bots": 1.5, "host": 4.5, "agent": 4.5}
"""The next kill comes after this time even if less has happened."""
_POLL_SECONDS = 0.005


@dataclass(slots=True)
class Killer:
    """`with Killer(world, seed, bots=60, hosts=20, agents=20) as killer:` until its `progress` is 1."""

    world: World
    seed: int
    bots: int
    hosts: int
    agents: int
    done: Counter[Target] = field(default_factory=Counter[Target])
    _stop: threading.Event = field(default_factory=threading.Event)
    _error: BaseException | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="killer")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def progress(self) -> float:
        """The part of the kills that are done."""
        if self._error is not None:
            raise self._error
        return self.done.total() / (self.bots + self.hosts + self.agents)

    def _run(self) -> None:
        generator = random.Random(self.seed)
        targets: list[Target] = [*["bots"] * self.bots, *["host"] * self.hosts, *["agent"] * self.agents]  # pyright: ignore[reportAssignmentType]
        generator.shuffle(targets)
        try:
            for target in targets:
                self._wait(target, generator.randint(0, MOST_CALLS[target]))
                if self._stop.is_set():
                    return
                self._kill(target)()
                self.done[target] += 1
        except BaseException as error:  # noqa: BLE001 - it is raised where the test waits
            self._error = error

    def _wait(self, target: Target, calls: int) -> None:
        happened = self._calls_of_bots if target == "bots" else lambda: len(self.world.provider.requests)
        wanted, deadline = happened() + calls, time.monotonic() + MOST_SECONDS[target]
        while happened() < wanted and time.monotonic() < deadline and not self._stop.wait(_POLL_SECONDS):
            pass

    def _calls_of_bots(self) -> int:
        return len(self.world.telegram.journal) + len(self.world.discord.journal)

    def _kill(self, target: Target) -> Callable[[], None]:
        return {"bots": self.world.kill_bots, "host": self.world.kill_host, "agent": self.world.kill_agent}[target]
