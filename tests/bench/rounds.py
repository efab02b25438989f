"""One round: both targets started afresh, every row measured on them slice by slice."""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack

import uvloop

from .load import Samples, forget
from .report import Round
from .rows import COLD_START, READY, Row, p50
from .targets import Live, Target, running

Measured = dict[str, dict[str, float]]
"""Target -> metric -> figure."""


def take_round(ours: Target, floor: Target, rows: Sequence[Row], starts: int, provider: str) -> Round:
    """`starts` cold starts of each, then the rows on one fresh process of each; rows that want contents in the database
    share another process of each."""
    figures: Measured = {ours.name: {}, floor.name: {}}
    if starts:
        _add(figures, _cold_starts((ours, floor), starts, provider))
    for contents, group in itertools.groupby(rows, lambda row: row.contents):
        with ExitStack() as stack:
            both = [stack.enter_context(running(target, provider, contents)) for target in (ours, floor)]
            for row in group:
                note(f"  {row.name}")
                _add(figures, _measure(row, both if row.floor_too else both[:1], provider))
    return Round(figures[ours.name], figures[floor.name])


def _cold_starts(targets: Sequence[Target], starts: int, provider: str) -> Measured:
    note("  cold")
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(starts):
        for target in targets:
            with running(target, provider) as live:
                times[target.name].append((live.started_in * 1000, live.ready_in * 1000))
    metrics = (COLD_START, READY)
    return {name: dict(zip(metrics, map(p50, zip(*taken, strict=True)), strict=True)) for name, taken in times.items()}


def _measure(row: Row, targets: Sequence[Live], provider: str) -> Measured:
    """Each slice begins with another target."""
    samples: dict[str, Samples] = {live.name: defaultdict(list) for live in targets}
    for number in range(row.slices):
        for live in targets if number % 2 else reversed(targets):
            for key, values in uvloop.run(row.take(live, provider)).items():
                samples[live.name][key] += values
        uvloop.run(forget(provider))
    for metric in row.missing(samples[targets[0].name]):
        note(f"  not installed: {metric}")
    return {name: row.figures(taken) for name, taken in samples.items()}


def _add(figures: Measured, found: Measured) -> None:
    for name, more in found.items():
        figures[name].update(more)


def note(text: str) -> None:
    """Progress goes to stderr, the table to stdout."""
    print(text, file=sys.stderr, flush=True)
