"""The table: medians over rounds, ratios to the floor of the same round, bars."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .rows import BARS, GROWTH, Figures, growth


@dataclass(frozen=True, slots=True)
class Round:
    """All figures of both targets, taken side by side."""

    ours: Figures
    floor: Figures


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    metric: str
    ours: float
    floor: float | None
    ratio: float | None
    """Median of the ratios within the rounds."""
    bar: str
    passed: bool | None
    """None: there is no bar."""


def lines(rounds: Sequence[Round]) -> list[Line]:
    """One line per metric that was measured, in the order of the first round."""
    table = [_line(metric, rounds) for metric in rounds[0].ours]
    if "CPU at turn 200, ms" in rounds[0].ours:
        value = growth(lambda metric: statistics.median(one.ours[metric] - one.floor[metric] for one in rounds))
        bar = BARS[GROWTH]
        table.append(Line(GROWTH, value, None, None, str(bar), bar.holds(value)))
    return table


def _line(metric: str, rounds: Sequence[Round]) -> Line:
    ours = statistics.median(one.ours[metric] for one in rounds)
    bar = BARS.get(metric)
    floor = ratio = None
    if metric in rounds[0].floor:
        floor = statistics.median(one.floor[metric] for one in rounds)
        ratio = statistics.median(one.ours[metric] / one.floor[metric] for one in rounds)
    if bar is None:
        return Line(metric, ours, floor, ratio, "", None)
    judged = ratio if bar.of == "floor" and ratio is not None else ours
    return Line(metric, ours, floor, ratio, str(bar), bar.holds(judged))


def table(found: Sequence[Line]) -> str:
    """The lines as text."""
    head = f"{'':42} {'ours':>9} {'floor':>9} {'ratio':>7}  {'bar':8}"
    return "\n".join([head, *(_text(line) for line in found)])


def _text(line: Line) -> str:
    mark = {None: "", True: "ok", False: "MISSED"}[line.passed]
    floor, ratio = _number(line.floor), "" if line.ratio is None else f"{line.ratio:.2f}x"
    return f"{line.metric:42} {_number(line.ours):>9} {floor:>9} {ratio:>7}  {line.bar:8} {mark}".rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
