"""The rows: how often each measurement is taken, what is made of its samples, and where the bar lies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from . import load, many, saves
from .stored import Contents

Figures = Mapping[str, float]
"""Metric -> one figure, of one target in one round."""


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement. Slices of the targets take turns, so that a noisy moment hits both."""

    name: str
    take: load.Slice
    slices: int
    reduce: Mapping[str, tuple[str, Callable[[Sequence[float]], float]]]
    """Metric -> the samples it is made of, and how."""
    floor_too: bool = True
    contents: Contents | None = None
    """What must be in the database before the server starts."""


def p95(samples: Sequence[float]) -> float:
    return statistics.quantiles(samples, n=20, method="inclusive")[-1] if len(samples) > 1 else samples[0]


p50 = statistics.median

ROWS = (
    Row("idle", load.idle_memory, 1, {"RSS before the first turn, MiB": ("memory", p50)}),
    Row(
        "turn",
        load.turns,
        5,
        {"turn p50, ms": ("turn", p50), "turn p95, ms": ("turn", p95), "CPU per turn, ms": ("cpu", p50)},
    ),
    Row("used", load.memory, 1, {"RSS after a hundred turns, MiB": ("memory", p50)}),
    Row("tools", load.tool_rounds, 5, {"tool round, ms": ("round", p50)}, floor_too=False),
    Row("boxed", load.boxed_rounds, 2, {"tool round in a box, ms": ("round", p50)}, floor_too=False),
    Row("first", load.first_token, 2, {"time to first token, ms": ("first", p50)}),
    Row("tokens", load.tokens, 3, {"tokens/s": ("tokens", p50), "CPU per streamed token, us": ("cpu", p50)}),
    Row(
        "saving",
        saves.saving,
        1,
        {
            "saving a chunk, all at once, us": ("once", p50),
            "saving a chunk, ten to a flush, us": ("paced", p50),
            "written per chunk, ten to a flush, bytes": ("written", p50),
        },
        floor_too=False,
    ),
    Row("replay", many.replay, 2, {"2,000 chunks again, running, ms": ("replay", p50)}),
    Row("recorded", many.recorded, 1, {"2,000 chunks again, ended, ms": ("replay", p50)}, floor_too=False),
    Row(
        "crowd",
        load.crowd,
        4,
        {
            "turns/s, 16 clients": ("rate", p50),
            "turn p50, 16 clients, ms": ("wall", p50),
            "turn p95, 16 clients, ms": ("wall", p95),
            "busy /status p50, ms": ("status", p50),
            "busy /status p95, ms": ("status", p95),
        },
    ),
    Row(
        "growth",
        load.conversation,
        2,
        {
            "CPU at turn 10, ms": ("cpu10", p50),
            "CPU at turn 100, ms": ("cpu100", p50),
            "CPU at turn 200, ms": ("cpu200", p50),
        },
    ),
    Row(
        "list",
        many.listing,
        2,
        {
            "first page of 10,000 sessions p50, ms": ("first", p50),
            "first page of 10,000 sessions p95, ms": ("first", p95),
            "page in the middle p50, ms": ("middle", p50),
            "page in the middle p95, ms": ("middle", p95),
            "page in the middle / first page": ("depth", p50),
            "/status while listing p50, ms": ("status", p50),
            "/status while listing p95, ms": ("status", p95),
        },
        contents=many.STORED,
    ),
    Row(
        "resume",
        many.resume,
        3,
        {
            "first token, 1,000 messages, cold, ms": ("cold", p50),
            "first token, 1,000 messages, warm, ms": ("warm", p50),
            "first token, new session, ms": ("new", p50),
        },
        contents=many.STORED,
    ),
)
COLD_START = "cold start, ms"
READY = "start to ready for turns, ms"
GROWTH = "CPU above the floor, turn 200 / turn 10"


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure must keep to: a multiple of the floor's in the same round, or a plain number."""

    limit: float
    of: str = "floor"
    """`floor`: the ratio to it; `ours`: our figure itself."""
    least: bool = False
    """The limit is the least that is wanted, not the most."""

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.least else '<='} {self.limit:g}{'x' if self.of == 'floor' else ''}"


BARS = {
    COLD_START: Bar(2),
    "RSS before the first turn, MiB": Bar(60, of="ours"),
    "RSS after a hundred turns, MiB": Bar(110, of="ours"),
    "turn p50, ms": Bar(2),
    "turns/s, 16 clients": Bar(0.5, least=True),
    "tokens/s": Bar(0.5, least=True),
    # The floor saves nothing while it streams; saving must not make a token dearer than that.
    "CPU per streamed token, us": Bar(1),
    # Nothing to compare with. A model's own tokens are milliseconds apart, so these leave it 99 % of a core.
    "saving a chunk, all at once, us": Bar(5, of="ours"),
    "saving a chunk, ten to a flush, us": Bar(40, of="ours"),
    # One page of 4 KiB in the log for each flush and a little more; a second one would show.
    "written per chunk, ten to a flush, bytes": Bar(700, of="ours"),
    # The floor joins what it has and writes it at once; we go in pieces, so that a slow reader costs no memory.
    "2,000 chunks again, running, ms": Bar(6),
    "2,000 chunks again, ended, ms": Bar(10, of="ours"),  # below what a person notices, with room for slow machines
    # A page must not cost more the further back it is; what it costs at all, a person must not notice.
    "page in the middle / first page": Bar(1.5, of="ours"),
    "first page of 10,000 sessions p50, ms": Bar(10, of="ours"),
    "page in the middle p50, ms": Bar(10, of="ours"),
    "/status while listing p95, ms": Bar(4),
    # The floor reads the same messages from its rows and keeps them as they are; we make them what the model sees.
    "first token, 1,000 messages, cold, ms": Bar(4),
    "first token, 1,000 messages, warm, ms": Bar(2),
    "busy /status p95, ms": Bar(4),
    GROWTH: Bar(1.7, of="ours"),
}


def growth(above: Callable[[str], float]) -> float:
    """How our CPU per turn above the floor's grows over a conversation; `above` is the difference in a metric."""
    early, late = (above(f"CPU at turn {turn}, ms") for turn in (10, 200))
    if late <= 0:
        return 0.0  # nothing is left above the floor, so nothing has grown
    return late / early if early > 0 else math.inf
