"""One run: a runtime, its model, a crowd, and a schedule of deaths."""

from __future__ import annotations

import json
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from agent_testing import ScriptedProvider

from .checks import always
from .clients import Client
from .forks import forks
from .ledger import Ledger
from .lives import PATIENCE, Lives
from .model import EFFECTS, STORY, Model
from .record import Record, effects, read
from .schedule import LONGEST, Kill, Moments, pause, schedule
from .talk import repeated
from .verdict import at_the_end
from .visits import visit

CLIENTS = 6
QUIET = 90.0
"""Seconds in which all queued work must be done once nothing dies any more."""
_POLL = 0.001


@dataclass(slots=True)
class Outcome:
    """What a run found, and its figures."""

    seed: int
    kills: int
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list[str])
    figures: dict[str, object] = field(default_factory=dict[str, object])


class Soak:
    """The parts of a run, wired."""

    def __init__(self, seed: int, kills: int, folder: Path, lives: Lives, model: Model, moments: Moments) -> None:
        self.seed, self.folder = seed, folder
        self.lives, self.model, self.moments = lives, model, moments
        self.plan = schedule(seed, kills)
        self.ledger = Ledger()
        self._seen: set[str] = set()

    def run(self) -> None:
        """Lets the crowd in, kills as planned, waits until all work is done, and looks at everything once more."""
        (self.lives.data / "workspace" / STORY).write_text("It was a dark and stormy night.\n" * 30, "utf-8")
        crowd = [Client(number, self.seed, self.lives, self.ledger, self.moments) for number in range(CLIENTS)]
        for client in crowd:
            client.start()
        for number, kill in enumerate(self.plan):
            self._until(kill)
            self.lives.kill()
            self._check(f"dead after kill {number} ({kill.aim})")
            self.lives.begin()
            if number + 1 == len(self.plan) or self.plan[number + 1].aim != "start":
                self.lives.ready()
                self._check(f"risen after kill {number} ({kill.aim})")
        for client in crowd:
            client.leave()
        for client in crowd:
            client.join(4 * PATIENCE)
            if client.is_alive():
                self._fault("the end", f"{client.name} is still waiting for an answer")
        self._calm()

    def _until(self, kill: Kill) -> None:
        """Returns at the moment that this death is planned for, or when that moment does not come."""
        if kill.aim == "effect":
            self._next_effect(kill.nth)
        elif kill.aim not in ("start", "time"):
            self.moments.wait(kill.aim, kill.nth, LONGEST)
        pause(kill.seconds)

    def _next_effect(self, nth: int) -> None:
        """Watches the file that tools append to: the record of what they did comes later."""
        file, deadline = self.lives.data / "workspace" / EFFECTS, time.monotonic() + LONGEST
        size = file.stat().st_size if file.exists() else 0
        while nth and time.monotonic() < deadline:
            grown = file.stat().st_size if file.exists() else 0
            if grown > size:
                size, nth = grown, nth - 1
            time.sleep(_POLL)

    def look(self) -> tuple[Record, list[str]]:
        return read(self.lives.data / "agent.db"), effects(self.lives.data / "workspace" / EFFECTS)

    def _check(self, when: str) -> None:
        promised = self.ledger.frozen()
        record, lines = self.look()
        for fault in always(record, promised, lines):
            self._fault(when, fault)

    def _fault(self, when: str, fault: str) -> None:
        """Notes a fault the first time it is seen."""
        if fault not in self._seen:
            self._seen.add(fault)
            self.ledger.fault(f"{when}: {fault}")

    def _calm(self) -> None:
        deadline = time.monotonic() + QUIET
        while (record := self.look()[0]).unfinished and time.monotonic() < deadline:
            pause(0.2)
        record, lines = self.look()
        self._check("the end")
        for fault in forks(self.lives.data / "agent.db", self.ledger):
            self._fault("the end", fault)
        for fault in at_the_end(record, self.ledger, self.lives, self.model.asks, lines):
            self._fault("the end", fault)
        for fault in visit(self.lives, self.ledger, record):
            self._fault("the end", fault)


def soak(seed: int, kills: int, folder: Path) -> Outcome:
    """A whole run; what it leaves in `folder` is the data directory and the log of each life."""
    began, outcome, moments = time.monotonic(), Outcome(seed, kills), Moments()
    numbered: list[Lives] = []
    model = Model(lambda: numbered[0].number if numbered else 0, moments.happened)
    with ScriptedProvider(model) as provider, Lives(folder, provider.url) as lives:
        numbered.append(lives)
        run = Soak(seed, kills, folder, lives, model, moments)
        try:
            run.run()
        except Exception:  # noqa: BLE001  what was found until then must not be lost
            run.ledger.fault(f"the run broke off:\n{traceback.format_exc()}")
        outcome.faults, outcome.figures = run.ledger.faults, _figures(run)
    outcome.seconds = time.monotonic() - began
    return outcome


def _figures(run: Soak) -> dict[str, object]:
    record, lines = run.look()
    ends = Counter(("task " if turn["task_id"] else "chat ") + _end(turn["outcome_json"]) for turn in record.turns)
    starts = sorted(run.lives.starts)
    return {
        "kills": ", ".join(f"{count} {aim}" for aim, count in Counter(kill.aim for kill in run.plan).most_common()),
        "start, median and longest": f"{starts[len(starts) // 2]:.2f} s, {starts[-1]:.2f} s",
        "requests answered": run.ledger.calls,
        "sent again for want of an answer": run.ledger.repeated,
        "turns": len(record.turns),
        **{f"  {end}": count for end, count in sorted(ends.items())},
        "turns aborted": run.ledger.aborts,
        "messages taken back from the queue": sum(s.withdrawn is not None for s in run.ledger.messages.values()),
        "forks": len(run.ledger.forks),
        "streams read to their end": len(run.ledger.streams),
        "model calls": len(run.model.asks),
        "  made again": repeated(run.model.asks),
        "effects": len(lines),
    }


def _end(outcome: str | None) -> str:
    fields = json.loads(outcome or "{}")
    return fields.get("error_code") or fields.get("status") or "unfinished"
