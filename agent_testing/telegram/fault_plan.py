"""Faults at random: a function of a seed and of probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from random import Random
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TelegramFaults:
    """Probabilities of faults, between 0 and 1; by default there are none.

    Each kind is drawn by itself from the seed, so that another probability of one kind leaves the others as they were.
    """

    seed: int = 0
    too_many_requests: float = 0.0
    """Of a call: refused with 429, to be repeated after `retry_after` seconds."""
    server_errors: float = 0.0
    """Of a call: refused with 500 or 502."""
    html: float = 0.0
    """Of a call: not carried out, and answered by a proxy with a page."""
    cuts_before: float = 0.0
    """Of a call: the connection is lost before it is carried out."""
    cuts_after: float = 0.0
    """Of a call: the connection is lost after it was carried out, without an answer."""
    hangs: float = 0.0
    """Of a call: carried out, and not answered for `hang_seconds`; then the connection is lost."""
    slow: float = 0.0
    """Of a call: answered up to `slow_seconds` later."""
    cut_polls: float = 0.0
    """Of a getUpdates that waits: the connection is lost meanwhile."""
    duplicates: float = 0.0
    """Of an update: handed out again although it was confirmed."""
    reorders: float = 0.0
    """Of a batch of updates: shuffled."""
    late: float = 0.0
    """Of an update: handed out after newer ones."""
    retry_after: float = 1.0
    hang_seconds: float = 30.0
    slow_seconds: float = 0.5

    def __post_init__(self) -> None:
        for field in fields(self):
            value: float = getattr(self, field.name)
            seconds = field.name in ("seed", "retry_after", "hang_seconds", "slow_seconds")
            if not seconds and not (math.isfinite(value) and 0 <= value <= 1):
                raise ValueError(f"{field.name} is {value}; give a probability between 0 and 1")


class Dice:
    """Draws of each kind of fault, each kind from a stream of its own."""

    def __init__(self, faults: TelegramFaults) -> None:
        self.faults = faults
        self._streams = {field.name: Random(f"{faults.seed}/{field.name}") for field in fields(faults)}  # noqa: S311

    def happens(self, kind: str) -> bool:
        probability: float = getattr(self.faults, kind)
        return self._streams[kind].random() < probability if probability else False

    def fraction(self, kind: str) -> float:
        return self._streams[kind].random()

    def shuffled(self, kind: str, items: list[_T]) -> list[_T]:
        return self._streams[kind].sample(items, len(items))


class UpdateFaults:
    """The faults of updates. By default there are none."""

    def __init__(self, dice: Dice | None = None) -> None:
        self._dice = dice or Dice(TelegramFaults())

    def late(self) -> bool:
        return self._dice.happens("late")

    def duplicated(self) -> bool:
        return self._dice.happens("duplicates")

    def reordered(self, batch: list[_T]) -> list[_T]:
        return self._dice.shuffled("reorders", batch) if self._dice.happens("reorders") else batch
