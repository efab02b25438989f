"""Plugins are saved, broken, mended, renamed, deleted and made by the agent, again and again: nothing may pile up."""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_testing import Call, Recorded, Say, ScriptedProvider, Step

from ..lives import Lives
from .findings import Findings, p95
from .household import Household, household, settled
from .shelf import MOST, Lying, Shelf, code
from .talking import Talking

WARM = 300
"""Changes before anything is compared, at most a third of all: caches fill, histories get their size."""
GROWTH = 20.0
"""MiB that the server may grow."""
JUDGED = 15.0
"""Seconds in which a change must show."""
LOOK = 0.01
CALL_EVERY = 10


def reloads(changes: int, seed: int) -> Findings:
    """So many changes; which ones is a function of the seed."""
    found = Findings(f"reloads: {changes} changes, seed {seed}")
    with tempfile.TemporaryDirectory(prefix="reloads-") as temporary:
        folder = Path(temporary)
        skills = folder / "data/skills"
        skills.mkdir(parents=True)
        shelf = Shelf(skills, random.Random(seed))
        with (
            ScriptedProvider(answer) as provider,
            Lives(folder, provider.url) as lives,
            Talking(lives.url) as talking,
            found.noting(),
        ):
            Season(found, lives, talking, shelf).run(changes)
    return found


def answer(request: Recorded) -> Step:
    """A model that makes the calls that the user's message lists, and then says so."""
    if request.messages[-1].get("role") != "user":
        return Say("done")
    return Say(calls=tuple(Call(one["name"], one["arguments"]) for one in json.loads(request.last_user_text)))


class Season:
    """One run over a live server."""

    def __init__(self, found: Findings, lives: Lives, talking: Talking, shelf: Shelf) -> None:
        self.found, self.lives, self.talking, self.shelf = found, lives, talking, shelf
        self._tally: Counter[str] = Counter()
        self._seconds: list[float] = []

    def run(self, changes: int) -> None:
        began, warm = time.monotonic(), self.look()
        for number in range(changes):
            if number == min(WARM, changes // 3):
                warm = self.settle()
            self._change()
            if self.found.faults:
                return
            if number % CALL_EVERY == 0 and self.shelf.plugins:
                self._call(number)
        self._report(warm, self.settle(), time.monotonic() - began)

    def look(self) -> Household:
        return household(self.lives.pid, self.lives.data)

    def settle(self) -> Household:
        """Garbage that waits for its collector is no leak: a few turns make it come round."""
        wanted = len(self.shelf.plugins) + 1

        def calm() -> bool:
            self._turn("list_skills")
            now = self.look()
            return now.staged <= wanted + SLACK["staged"] and now.workers <= 4 * wanted

        settled(calm)
        return self.look()

    def _change(self) -> None:
        kind = self._kind()
        self._tally[kind.__name__.strip("_")] += 1
        self.shelf.done.append(f"-- {kind.__name__}")
        kind()
        began = time.monotonic()
        while missing := self.shelf.missing(self.talking.card()):
            if time.monotonic() - began > JUDGED:
                self.found.note(f"after {kind.__name__}: {one}" for one in missing)
                self.found.note([f"it came to this by {' '.join(self.shelf.done[-40:])}"])
                return
            time.sleep(LOOK)
        self._seconds.append(time.monotonic() - began)

    def _kind(self) -> Callable[[], None]:
        shelf = self.shelf
        if len(shelf.plugins) < 3:
            return shelf.add
        growing: tuple[tuple[Callable[[], None], int], ...] = ((shelf.add, 8), (self._create, 8))
        kinds: tuple[tuple[Callable[[], None], int], ...] = (
            *((shelf.edit, 40), (shelf.spoil, 15), (shelf.half, 5), (shelf.litter, 3), (shelf.rename, 8)),
            *((shelf.delete, 8), (self._remove, 4), (self._restore, 3), (shelf.help, 1)),
            *(growing if len(shelf.plugins) < MOST else ()),
        )
        return shelf.dice.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]

    # changes by tools

    def _create(self) -> None:
        number = self.shelf.number()
        name = f"made_{number}"
        wrong = self._turn("create_skill", name=name, code=f"{code(name, number)}\n1 / 0\n")
        if "ZeroDivisionError" not in str(wrong["output"]):
            self.found.note([f"a wrong skill was answered {wrong}"])
        made = self._turn("create_skill", name=name, code=code(name, number), test={"n": 7})
        if made["state"] != "output-available" or made["output"]["data"]["test"]["result"] != [7, number]:
            self.found.note([f"create_skill was answered {made}"])
        self.shelf.plugins[f"{name}.py"] = Lying(name, number)

    def _remove(self) -> None:
        file = self.shelf.any()
        done = self._turn("remove_skill", name=file.removesuffix(".py"))
        if done["state"] != "output-available":
            self.found.note([f"remove_skill was answered {done}"])
        del self.shelf.plugins[file]

    def _restore(self) -> None:
        file = self.shelf.any()
        listed = self._turn("list_skills", name=file.removesuffix(".py"))["output"]
        versions = [one["version"] for one in listed["data"]["versions"] if one["action"] != "removed"]
        version = self.shelf.dice.choice(versions)
        done = self._turn("reload_skills", name=file.removesuffix(".py"), version=version)
        if done["state"] != "output-available":
            self.found.note([f"reload_skills was answered {done}"])
            return
        [skill] = done["output"]["data"]["skills"]
        said = int(skill["description"].removeprefix("Says ").removesuffix("."))
        self.shelf.plugins[file] = Lying(skill["name"], said)

    def _call(self, number: int) -> None:
        file = self.shelf.any()
        lying = self.shelf.plugins[file]
        if lying.good is None:
            return
        done = self._turn(lying.name, n=number)
        if done["state"] != "output-available" or done["output"]["data"] != [number, lying.good]:
            self.found.note([f"{lying.name} was answered {done}"])

    def _turn(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        [output] = self.talking.turn(json.dumps([{"name": name, "arguments": arguments}]))
        return output

    def _report(self, warm: Household, end: Household, seconds: float) -> None:
        more = end.memory - warm.memory
        if more > GROWTH:
            self.found.note([f"the server has grown by {more:.1f} MiB"])
        for name in ("descriptors", "threads", "watches"):
            if getattr(end, name) > getattr(warm, name) + SLACK[name]:
                self.found.note([f"{name}: {getattr(warm, name)} became {getattr(end, name)}"])
        plugins = len(self.shelf.plugins) + 1
        if end.staged > plugins + SLACK["staged"]:
            self.found.note([f"{end.staged} builds are on disk for {plugins} plugins"])
        if end.workers > 4 * plugins:
            self.found.note([f"{end.workers} processes work for {plugins} plugins"])
        self.found.figures |= {
            "changes": ", ".join(f"{count} {kind}" for kind, count in self._tally.most_common()),
            "until it showed, p50 and p95": f"{statistics.median(self._seconds) * 1000:.0f}, "
            f"{p95(self._seconds) * 1000:.0f} ms",
            "once warm": warm,
            "at the end": end,
            "grown by": f"{more:.1f} MiB",
            "took": f"{seconds:.0f} s",
        }


SLACK = {"descriptors": 40, "threads": 8, "watches": 0, "staged": 40}
"""A worker that waits has four descriptors, threads come as they are needed, and a build stays on disk until the last
turn that knew it has been collected."""
