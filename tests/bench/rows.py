"""The rows: how often each measurement is taken, what is made of its samples, and where the bar lies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from . import (
    beside_ag2,
    counting,
    gateway,
    held,
    hops,
    load,
    many,
    mediated,
    network,
    prompt,
    recalled,
    saves,
    skills,
    team,
    views,
    wire,
)
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

    def figures(self, samples: load.Samples) -> dict[str, float]:
        """What is made of the samples, but for what could not be measured."""
        return {metric: make(samples[key]) for metric, (key, make) in self.reduce.items() if samples.get(key)}

    def missing(self, samples: load.Samples) -> list[str]:
        """The metrics without samples: this machine has not what they measure."""
        return [metric for metric, (key, _) in self.reduce.items() if not samples.get(key)]


def p95(samples: Sequence[float]) -> float:
    return statistics.quantiles(samples, n=20, method="inclusive")[-1] if len(samples) > 1 else samples[0]


p50 = statistics.median
SAVED, SAVED_BUSY = "skill saved to callable {}, ms", "the same beside four chats {}, ms"
SEARCH = "search of 100,000 facts p95, ms"
TRIPS, TRIP_P99 = "channel: round trips / bare echo", "channel: round trip p99 / bare echo"
ADDED, SHARE = "gateway: added to a turn p50, ms", "gateway: tokens/s through the host / direct"
TALK, TALK_FLAT = "hub in memory, envelopes/s", "hub in memory: last quarter of a session / first"
STORED, STORED_FLAT = "hub on SQLite, 32 sessions, envelopes/s", "hub on SQLite: last quarter of a session / first"
SHARED = "hub on PostgreSQL, 32 sessions, envelopes/s"
SHARED_FLAT = "hub on PostgreSQL: last quarter of a session / first"
REREAD, OPENING = "hub: envelopes that a restart reads of 10,000", "hub: opening among 10,000 sessions / among ten"
OPENING_STORED = "hub on SQLite: opening among 10,000 sessions / among ten"
IDLER = "hub: an idle agent, KiB"
WRITTEN, READ = "blackboard: write / bare handler", "blackboard: read / bare handler"
WATCHED = "blackboard: change to 1,000 watchers p95, ms"
AGENT, BACK = "channel: an idle agent on the host, KiB", "channel: break to ready p95, ms"

ROWS = (
    Row(
        "hops",
        hops.hops,
        1,
        {f"{flow}: {count}": (f"{flow} {count}", p50) for flow in hops.FLOWS for count in hops.COUNTS},
        floor_too=False,
    ),
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
    Row(
        "held",
        held.holding,
        1,
        {
            "bash -c true, confined p50, ms": ("confined", p50),
            "bash -c true, confined p95, ms": ("confined", p95),
            "bash -c true, bubblewrap alone, ms": ("bubblewrap", p50),
            "bash -c true, bare, ms": ("bare", p50),
            "confined / bubblewrap alone": ("ratio", p50),
        },
        floor_too=False,
    ),
    Row(
        "hub",
        network.talking,
        1,
        {
            TALK: ("memory", p50),
            TALK_FLAT: ("memory flat", p50),
            STORED: ("sqlite", p50),
            STORED_FLAT: ("sqlite flat", p50),
            SHARED: ("postgresql", p50),
            SHARED_FLAT: ("postgresql flat", p50),
            REREAD: ("restart", p50),
            OPENING: ("open", p50),
            OPENING_STORED: ("sqlite open", p50),
            IDLER: ("idle", p50),
        },
        floor_too=False,
    ),
    Row(
        "ag2",
        beside_ag2.beside,
        1,
        {
            "hub by its clients, 2,000 envelopes/s": ("ours", p50),
            "AG2's hub by its clients, 2,000 envelopes/s": ("ag2", p50),
            "hub by its clients: last quarter of a session / first": ("ours flat", p50),
            "AG2's hub by its clients: last quarter of a session / first": ("ag2 flat", p50),
        },
        floor_too=False,
    ),
    Row(
        "skills",
        skills.calls,
        1,
        {
            "skill call above its own time p50, ms": ("above", p50),
            "skill call above its own time p95, ms": ("above", p95),
        },
        floor_too=False,
    ),
    Row("taught", skills.calls_in_turns, 1, {"the same in a live turn p50, ms": ("above", p50)}, floor_too=False),
    Row("saves", skills.saves, 1, {SAVED.format("p50"): ("taken", p50), SAVED.format("p95"): ("taken", p95)}, False),
    Row(
        "saves-busy",
        skills.saves_under_load,
        1,
        {SAVED_BUSY.format("p50"): ("taken", p50), SAVED_BUSY.format("p95"): ("taken", p95)},
        floor_too=False,
    ),
    Row(
        "prompt",
        prompt.prompts,
        1,
        {
            "prompt of a bare home, us": ("bare", p50),
            "prompt of a home that fills every cap, us": ("full", p50),
            "a result of 8 KiB to bytes, us": ("result", p50),
            "the same beyond ASCII, us": ("unicode", p50),
            "a message with a note to bytes, us": ("message", p50),
        },
        floor_too=False,
    ),
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
    Row(
        "compacted",
        views.reading_back,
        1,
        {
            "300 turns read back, ms": ("whole", p50),
            "the same with 10 compactions, ms": ("compacted", p50),
            "with compactions / without": ("share", p50),
        },
        floor_too=False,
    ),
    Row(
        "recall",
        recalled.recalling,
        1,
        {
            "search of 100,000 facts p50, ms": ("all", p50),
            SEARCH: ("all", p95),
            "the same, words of two signs p95, ms": ("pair", p95),
            "the same, frequent words p95, ms": ("frequent", p95),
            "the same, long questions p95, ms": ("long", p95),
            "the same by plain FTS5 (trigrams, bm25) p50, ms": ("plain", p50),
            "the same by plain FTS5 (trigrams, bm25) p95, ms": ("plain", p95),
        },
        floor_too=False,
    ),
    Row(
        "wire",
        wire.calling,
        1,
        {
            "a call over a unix socket, us": ("unix", p50),
            "a call over TCP, us": ("tcp", p50),
            "unix socket / TCP": ("ratio", p50),
        },
        floor_too=False,
    ),
    Row(
        "mediation",
        mediated.round_trips,
        1,
        {
            "channel: round trips/s, 32 in flight": ("rate", p50),
            "channel: bare echo, round trips/s": ("echo rate", p50),
            TRIPS: ("x rate", p50),
            "channel: round trip p50, ms": ("p50", p50),
            "channel: bare echo p50, ms": ("echo p50", p50),
            "channel: round trip p99, ms": ("p99", p50),
            "channel: bare echo p99, ms": ("echo p99", p50),
            TRIP_P99: ("x p99", p50),
            "channel: request to accepting p50, ms": ("first50", p50),
            "channel: request to accepting p99, ms": ("first99", p50),
            "channel: frames/s": ("frames", p50),
            "channel: host CPU per round trip, us": ("cpu", p50),
            "channel: guest CPU per round trip, us": ("guest", p50),
            "channel: bare echo, asking end's CPU, us": ("echo cpu", p50),
        },
        floor_too=False,
    ),
    Row(
        "gateway",
        gateway.gateway,
        1,
        {
            "gateway: turn by the agent's address p50, ms": ("direct turn", p50),
            "gateway: turn through the host p50, ms": ("through turn", p50),
            ADDED: ("added", p50),
            "gateway: tokens/s by the agent's address": ("direct tokens", p50),
            "gateway: tokens/s through the host": ("through tokens", p50),
            SHARE: ("share", p50),
        },
        floor_too=False,
    ),
    Row(
        "team",
        team.sharing,
        1,
        {
            "blackboard: write p50, ms": ("write", p50),
            "blackboard: bare handler, write p50, ms": ("bare write", p50),
            WRITTEN: ("write ratio", p50),
            "blackboard: read p50, ms": ("read", p50),
            "blackboard: bare handler, read p50, ms": ("bare read", p50),
            READ: ("read ratio", p50),
            WATCHED: ("watch", p95),
            "blackboard: bare handler, to 1,000 watchers p95, ms": ("bare watch", p95),
            "topic: message to the last of 100 subscribers p50, ms": ("published", p50),
        },
        floor_too=False,
    ),
    Row("idle-agents", mediated.idle_agents, 1, {AGENT: ("memory", p50)}, floor_too=False),
    Row(
        "reconnect",
        mediated.reconnects,
        1,
        {"channel: break to ready p50, ms": ("reconnect", p50), BACK: ("reconnect", p95)},
        floor_too=False,
    ),
    Row(
        "counting",
        counting.counting,
        1,
        {
            "tokens estimated, us/KiB": ("estimate", p50),
            "tokens counted, us/KiB": ("exact", p50),
            "tiktoken alone, us/KiB": ("alone", p50),
            "counted / tiktoken alone": ("ratio", p50),
            "gauge before a call, us": ("call", p50),
            "loading o200k_base, ms": ("load", p50),
            "memory of o200k_base, MiB": ("memory", p50),
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
    # Nothing to compare with.
    TALK: Bar(10_000, of="ours", least=True),
    STORED: Bar(2000, of="ours", least=True),
    # What an envelope costs must not depend on how long its session is.
    TALK_FLAT: Bar(0.95, of="ours", least=True),
    STORED_FLAT: Bar(0.95, of="ours", least=True),
    SHARED_FLAT: Bar(0.95, of="ours", least=True),
    REREAD: Bar(64, of="ours"),
    OPENING: Bar(1.15, of="ours"),
    OPENING_STORED: Bar(1.15, of="ours"),
    IDLER: Bar(10, of="ours"),
    # The bare handler knows no teams, conditions, history or watchers, and commits as often.
    WRITTEN: Bar(2, of="ours"),
    READ: Bar(2, of="ours"),
    WATCHED: Bar(20, of="ours"),
    COLD_START: Bar(2),
    "RSS before the first turn, MiB": Bar(60, of="ours"),
    "RSS after a hundred turns, MiB": Bar(110, of="ours"),
    "turn p50, ms": Bar(2),
    ADDED: Bar(0.6, of="ours"),
    SHARE: Bar(0.95, of="ours", least=True),
    # No tool at all would be free; what remains is ours: two saves, the gate, and another call of the model.
    "tool round, ms": Bar(3, of="ours"),
    "bash -c true, confined p50, ms": Bar(40, of="ours"),
    "skill call above its own time p50, ms": Bar(3, of="ours"),
    "the same in a live turn p50, ms": Bar(3, of="ours"),
    SAVED.format("p95"): Bar(500, of="ours"),
    SAVED_BUSY.format("p95"): Bar(500, of="ours"),
    "turns/s, 16 clients": Bar(0.5, least=True),
    "tokens/s": Bar(0.5, least=True),
    # The floor saves nothing while it streams; saving must not make a token dearer than that.
    "CPU per streamed token, us": Bar(1),
    # Nothing to compare with. A model's own tokens are milliseconds apart, so these leave it 99 % of a core.
    "saving a chunk, all at once, us": Bar(5, of="ours"),
    "saving a chunk, ten to a flush, us": Bar(40, of="ours"),
    # One page of 4 KiB in the log for each flush and a little more; a second one would show.
    "written per chunk, ten to a flush, bytes": Bar(700, of="ours"),
    # Only what lies behind the last compaction is read; what lies before it must not show.
    "with compactions / without": Bar(0.25, of="ours"),
    SEARCH: Bar(15, of="ours"),
    # The echo checks nothing and keeps no trail, and commits as often.
    TRIPS: Bar(0.4, of="ours", least=True),
    TRIP_P99: Bar(3, of="ours"),
    AGENT: Bar(40, of="ours"),
    BACK: Bar(300, of="ours"),
    # A message is estimated once; a turn has a few KiB of new ones, so this is some hundredths of it.
    "tokens estimated, us/KiB": Bar(40, of="ours"),
    "counted / tiktoken alone": Bar(1.5, of="ours"),
    "gauge before a call, us": Bar(200, of="ours"),
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
    GROWTH: Bar(1.5, of="ours"),
}


def growth(above: Callable[[str], float]) -> float:
    """How our CPU per turn above the floor's grows over a conversation; `above` is the difference in a metric."""
    early, late = (above(f"CPU at turn {turn}, ms") for turn in (10, 200))
    if late <= 0:
        return 0.0  # nothing is left above the floor, so nothing has grown
    return late / early if early > 0 else math.inf
