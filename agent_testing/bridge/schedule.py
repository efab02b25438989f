"""The order of faults as a pure function of `BridgeFaults`: the same value gives the same events, for ever."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from random import Random

from .faults import BridgeFaults, Event, Kind


def schedule(faults: BridgeFaults) -> Iterator[Event]:
    """Events in the order of time, without an end; none at all when every rate is 0."""
    streams = [_stream(faults, kind, rate) for kind, rate in _rates(faults).items() if rate]
    return heapq.merge(*streams, key=lambda event: event.at)


def _rates(faults: BridgeFaults) -> dict[Kind, float]:
    return {
        "break": faults.breaks_per_minute,
        "cut": faults.cuts_per_minute,
        "stall": faults.stalls_per_minute,
        "half_close": faults.half_closes_per_minute,
        "reorder": faults.reorders_per_minute,
        "snapshot": faults.snapshots_per_minute,
        "refuse": faults.refusals_per_minute,
        "sever": faults.severs_per_minute,
        "flap": faults.flaps_per_minute,
        "flood": faults.floods_per_minute,
    }


def _longest(faults: BridgeFaults) -> dict[Kind, float]:
    outages: tuple[Kind, ...] = ("reorder", "refuse", "sever")
    return {
        **dict.fromkeys(outages, faults.longest_outage),
        "stall": faults.longest_stall,
        "flap": faults.longest_flap,
        "flood": faults.longest_flood,
    }


def _stream(faults: BridgeFaults, kind: Kind, rate: float) -> Iterator[Event]:
    """One kind alone, at times that know nothing of each other."""
    dice = Random(f"{faults.seed}/{kind}")  # noqa: S311  repeatable on purpose
    longest = _longest(faults).get(kind, 0.0)
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
