"""The schedule of random faults, a function of a seed and of rates."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from random import Random
from typing import Literal, get_args

from .link import Direction, How

Kind = Literal["break", "cut", "stall", "half_close", "reorder", "snapshot", "refuse", "sever", "flap", "flood"]
_LONGEST = {
    "stall": "stall",
    "flap": "flap",
    "flood": "flood",
    "reorder": "outage",
    "refusal": "outage",
    "sever": "outage",
}


@dataclass(frozen=True, slots=True)
class BridgeFaults:
    """Rates of faults; by default there are none.

    A rate is events per minute. Each kind is drawn by itself from the seed, so that another rate of one kind leaves the
    others as they were. Durations are drawn evenly up to their `longest`, in seconds.
    """

    seed: int = 0
    breaks_per_minute: float = 0.0
    """One connection is reset or closed; every fourth time all of them."""
    cuts_per_minute: float = 0.0
    """One connection breaks after up to `cut_within` more bytes in one direction: within a frame, most often."""
    stalls_per_minute: float = 0.0
    """One direction of one connection stalls."""
    half_closes_per_minute: float = 0.0
    """One direction of one connection ends."""
    reorders_per_minute: float = 0.0
    """The guest loses every connection, and the host sees it only later, perhaps after the guest has reconnected."""
    snapshots_per_minute: float = 0.0
    """The guest's side of every connection is reset; the listening socket stays."""
    refusals_per_minute: float = 0.0
    """Nothing listens for the guest; open connections continue."""
    severs_per_minute: float = 0.0
    """Nothing listens and all is cut, as by a quarantine that is lifted again."""
    flaps_per_minute: float = 0.0
    """All connections are reset every 50 ms for a time."""
    floods_per_minute: float = 0.0
    """The target is probed `flood_rate` times a second for a time."""
    longest_stall: float = 2.0
    longest_outage: float = 1.0
    """Longest duration of refusals, severs and held ends."""
    longest_flap: float = 1.0
    longest_flood: float = 1.0
    cut_within: int = 4096
    flood_rate: float = 200.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value: float = getattr(self, field.name)
            if field.name != "seed" and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{field.name} is {value}; give a number that is 0 or more")
        if not self.flood_rate:
            raise ValueError("flood_rate cannot be 0; set floods_per_minute to 0")


@dataclass(frozen=True, slots=True)
class Event:
    """One fault of a schedule. Every event has all random values; each kind uses those it needs."""

    at: float
    """Seconds from the start."""
    kind: Kind
    all: bool
    """Whether it affects every connection, not one."""
    pick: float
    """Which connection, as a fraction of their number."""
    direction: Direction
    how: How
    seconds: float
    """Duration in seconds; 0 if it is over at once."""
    count: int
    """Bytes before a cut."""


def schedule(faults: BridgeFaults) -> Iterator[Event]:
    """Return the events in the order of time, without an end; none at all when every rate is 0."""
    names = {kind: "refusals" if kind == "refuse" else f"{kind}s" for kind in get_args(Kind)}
    rates = ((kind, getattr(faults, f"{name}_per_minute")) for kind, name in names.items())
    streams = [_stream(faults, kind, rate) for kind, rate in rates if rate]
    return heapq.merge(*streams, key=lambda event: event.at)


def _stream(faults: BridgeFaults, kind: Kind, rate: float) -> Iterator[Event]:
    dice = Random(f"{faults.seed}/{kind}")  # noqa: S311  repeatable on purpose
    longest: float = getattr(faults, f"longest_{_LONGEST[kind]}") if kind in _LONGEST else 0.0
    at = 0.0
    while True:
        at += dice.expovariate(rate / 60)
        yield Event(
            at=at,
            kind=kind,
            all=dice.random() < 0.25,
            pick=dice.random(),
            direction="to_host" if dice.random() < 0.5 else "to_guest",
            how="rst" if dice.random() < 0.5 else "fin",
            seconds=dice.random() * longest,
            count=int(dice.random() * (faults.cut_within + 1)),
        )
