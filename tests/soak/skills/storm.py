"""Plugins go wrong in every way that we could think of, again and again, beside one that must not notice."""

from __future__ import annotations

import re
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from agent_testing import Call, Recorded, Say, ScriptedProvider, Step
from tests.pulse import Pulse

from ..lives import TOKEN, Lives
from .findings import Findings
from .household import WORKER, anywhere, household, settled
from .talking import Talking
from .ways import WAYS, Way

AT_ONCE = 3
"""Chats in which plugins go wrong; one more has the bystander."""
CALLS = 20
"""Of the bystander, in one turn."""
SLOWEST = 100.0
"""Milliseconds: the 95th percentile of /status."""
BYSTANDER = """
import os
WHO, kept = os.urandom(8).hex(), []
@skill(name="bystander", description="Counts its calls.")
def bystander(n: int):
    kept.append(n)
    return [WHO, len(kept)]
"""


def storm(repeats: int, ways: Sequence[Way] = WAYS) -> Findings:
    """Each way so many times, with a good call of the same plugin behind each."""
    found = Findings(f"storm: {len(ways)} ways to go wrong, {repeats} times each")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="storm-")))
        skills, workspace = folder / "data/skills", folder / "data/workspace"
        for path in (skills, workspace):
            path.mkdir(parents=True)
        (workspace / "storm.txt").write_text("calm\n")
        for way in ways:
            (skills / f"{way.name}.py").write_text(way.plugin())
        (skills / "bystander.py").write_text(BYSTANDER)
        provider = stack.enter_context(ScriptedProvider(Model(ways, repeats).answer))
        settings = {"AGENT_MAX_ROUNDS": 2 * max(repeats, CALLS) + 10}
        lives = stack.enter_context(Lives(folder, provider.url, **settings))
        with Talking(lives.url) as talking, found.noting():
            _weather(found, talking, lives, ways, repeats)
    return found


def _weather(found: Findings, talking: Talking, lives: Lives, ways: Sequence[Way], repeats: int) -> None:
    names = {name for way in ways for name in (f"{way.name}_good", f"{way.name}_bad")}
    offered = set(talking.card()["tools"])
    found.note(f"{name} is not offered" for name in sorted(names - offered))
    before, began = household(lives.pid, lives.data), time.monotonic()
    with Pulse(lives.url, TOKEN) as pulse, Bystander(lives.url) as bystander, ThreadPoolExecutor(AT_ONCE) as pool:
        for way, faults in zip(ways, pool.map(lambda way: list(play(lives.url, way, repeats)), ways), strict=True):
            found.note(f"{way.name}: {fault}" for fault in faults)
    found.note(bystander.faults)
    slow = pulse.p95
    if slow > SLOWEST:
        found.slow.append(f"/status took {slow:.0f} ms (p95)")
    for skill in talking.card()["skills"]:
        if skill["state"] != "active":
            found.note([f"{skill['name']} is {skill['state']}: {skill.get('error')}"])
    _clean(found, lives)
    found.figures |= {
        "calls that went wrong": (repeats + 1) * len(ways),
        "calls of the bystander": bystander.calls,
        "/status p50, p95, longest": f"{statistics.median(pulse.milliseconds):.1f}, {slow:.1f}, "
        f"{max(pulse.milliseconds):.0f} ms of {len(pulse.milliseconds)}",
        "before": before,
        "after": household(lives.pid, lives.data),
        "took": f"{time.monotonic() - began:.0f} s",
    }


def _clean(found: Findings, lives: Lives) -> None:
    """All plugins go, and with them everything that they ever started."""
    for path in (lives.data / "skills").glob("*.py"):
        path.unlink()
    marks = ("sleep 86397", f"{lives.data}/staged")
    if not settled(lambda: not household(lives.pid, lives.data).workers and not anywhere(*marks)):
        found.note(f"left behind: {line}" for line in anywhere(*marks, WORKER))


def play(url: str, way: Way, repeats: int) -> Iterator[str]:
    """One turn with all calls of a way: what went otherwise than it must."""
    try:
        with Talking(url) as talking:
            outputs = talking.turn(f"storm {way.name}")
    except (httpx.HTTPError, RuntimeError) as error:
        yield f"its turn had no answer: {error!r}"
        return
    wanted = (repeats + 1) * 2
    if len(outputs) != wanted:
        yield f"{len(outputs)} of {wanted} calls have an answer"
    for output in outputs:
        n = output["input"]["n"]
        yield from _judged(way, n, output)


def _judged(way: Way, n: int, output: dict[str, Any]) -> Iterator[str]:
    told = str(output["output"])
    failed = output["state"] == "output-error"
    if output["name"].endswith("_good"):
        if failed or output["output"].get("data") != n * n:
            yield f"good call {n} was answered {told[:300]}"
    elif bool(way.told) != failed:
        yield f"bad call {n} was answered {told[:300]}"
    elif not re.search(way.told or "done", told, re.DOTALL):
        yield f"bad call {n} was told {told[:300]}, not {way.told}"


class Model:
    """Asks for the calls of a way: one that goes wrong, then a good one, and so on; the last pair at once."""

    def __init__(self, ways: Sequence[Way], repeats: int) -> None:
        self._ways, self._repeats = {way.name: way for way in ways}, repeats

    def answer(self, request: Recorded) -> Step:
        what, _, name = request.last_user_text.strip().partition(" ")
        done = _steps(request)
        if what == "bystander":
            first = int(name)
            return Call("bystander", {"n": first + done}) if done < CALLS else Say("done")
        if what != "storm" or done > 2 * self._repeats:
            return Say("done")
        n = done // 2
        kinds = ("bad", "good") if done == 2 * self._repeats else ("good",) if done % 2 else ("bad",)
        return Say(calls=tuple(Call(f"{name}_{kind}", {"n": n}) for kind in kinds))


def _steps(request: Recorded) -> int:
    """Answers since the last message of the user."""
    done = 0
    for message in reversed(request.messages):
        if message.get("role") == "user":
            break
        done += message.get("role") == "assistant"
    return done


class Bystander(threading.Thread):
    """Calls another plugin all the while: each result must be right, and its worker always the same."""

    def __init__(self, url: str) -> None:
        super().__init__(name="bystander")
        self._url, self._over = url, threading.Event()
        self.calls, self.faults = 0, list[str]()

    def __enter__(self) -> Bystander:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        who: set[str] = set()
        with Talking(self._url) as talking:
            while not self._over.is_set():
                for output in talking.turn(f"bystander {self.calls}"):
                    if output["state"] != "output-available":
                        self.faults.append(f"the bystander's call {self.calls} failed: {output['output']}")
                        return
                    one, kept = output["output"]["data"]
                    who.add(one)
                    self.calls += 1
                    if len(who) > 1 or kept != self.calls:
                        self.faults.append(f"the bystander's worker was another one at call {self.calls}")
                        return
