"""Faults of calls: planned by a test, or drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .fault_plan import Dice, TelegramFaults, UpdateFaults

FaultKind = Literal["too_many_requests", "server_error", "html", "cut_before", "cut_after", "hang", "slow"]
_RANDOM: dict[str, FaultKind] = {
    "too_many_requests": "too_many_requests",
    "server_errors": "server_error",
    "html": "html",
    "cuts_before": "cut_before",
    "cuts_after": "cut_after",
    "hangs": "hang",
    "slow": "slow",
}
_EXEMPT = frozenset(("too_many_requests", "hang"))
"""Kinds that do not happen to getUpdates at random, because they would stop everything."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with a call, as `FakeTelegram.fail` lists it."""

    kind: FaultKind
    seconds: float = 1.0
    status: int = 502


@dataclass(slots=True)
class _Planned:
    method: str
    fault: Fault
    left: int
    skip: int


class FaultPlan:
    """The faults to come. Not safe for threads by itself."""

    def __init__(self, faults: TelegramFaults, changed: Callable[[UpdateFaults], None]) -> None:
        self._planned: list[_Planned] = []
        self._changed = changed
        self.random = faults

    @property
    def random(self) -> TelegramFaults:
        return self._dice.faults

    @random.setter
    def random(self, faults: TelegramFaults) -> None:
        self._dice = Dice(faults)
        self._changed(UpdateFaults(self._dice))

    def add(self, method: str, fault: Fault, times: int, skip: int) -> None:
        self._planned.append(_Planned(method.lower(), fault, times, skip))

    def clear(self) -> None:
        """Forget what was planned and stop what happens at random."""
        self._planned.clear()
        self.random = TelegramFaults()

    def next(self, method: str) -> Fault | None:
        """Return the fault of this call."""
        for planned in self._planned:
            if planned.method not in ("*", method):
                continue
            if planned.skip:
                planned.skip -= 1
                continue
            planned.left -= 1
            if not planned.left:
                self._planned.remove(planned)
            return planned.fault
        return self._draw(method)

    def cuts_poll(self) -> float | None:
        """Return the part of a poll's time after which it is cut; None if it is not."""
        return self._dice.fraction("cut_polls") if self._dice.happens("cut_polls") else None

    def _draw(self, method: str) -> Fault | None:
        faults = self._dice.faults
        seconds = {"too_many_requests": faults.retry_after, "hang": faults.hang_seconds}
        drawn = [name for name in _RANDOM if self._dice.happens(name)]
        for name in drawn:
            kind = _RANDOM[name]
            if method == "getupdates" and kind in _EXEMPT:
                continue
            if kind == "slow":
                return Fault(kind, self._dice.fraction(name) * faults.slow_seconds)
            status = 500 if kind == "server_error" and self._dice.fraction(name) < 0.5 else 502
            return Fault(kind, seconds.get(kind, 0.0), status)
        return None
