"""What may go wrong by itself, and how often. A value of this and its seed say all about a run's faults."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from .byte_pump import PIECE, Direction
from .sockets import How

Kind = Literal["break", "cut", "stall", "half_close", "reorder", "snapshot", "refuse", "sever", "flap", "flood"]


@dataclass(frozen=True, slots=True)
class BridgeFaults:
    """The default is a bridge that only does its work.

    A rate is events per minute, each kind drawn by itself from the seed, so that another rate of one kind leaves the
    others as they were. Lengths are drawn evenly up to their `longest`. Times are seconds.
    """

    seed: int = 0
    breaks_per_minute: float = 0.0
    """One connection is reset or closed; every fourth time all of them."""
    cuts_per_minute: float = 0.0
    """One connection breaks after up to `cut_within` more bytes in one direction: within a frame, most often."""
    stalls_per_minute: float = 0.0
    """One direction of one connection stands still."""
    half_closes_per_minute: float = 0.0
    """One direction of one connection ends."""
    reorders_per_minute: float = 0.0
    """The guest loses every connection, and the host learns of it only later, perhaps after the guest is back."""
    snapshots_per_minute: float = 0.0
    """The guest's side of every connection is reset, the listening socket lives."""
    refusals_per_minute: float = 0.0
    """Nobody listens for the guest; what stands goes on."""
    severs_per_minute: float = 0.0
    """Nobody listens and everything is cut, as by a quarantine that is lifted again."""
    flaps_per_minute: float = 0.0
    """All connections are reset every `flap_every` seconds for a time."""
    floods_per_minute: float = 0.0
    """The host is probed `flood_rate` times a second for a time."""
    longest_stall: float = 2.0
    longest_outage: float = 1.0
    """Of refusals, severs and held ends."""
    longest_flap: float = 1.0
    longest_flood: float = 1.0
    cut_within: int = 4096
    flap_every: float = 0.05
    flood_rate: float = 200.0
    piece: int = PIECE
    """Bytes that go through at once; 1 dribbles."""
    delay: float = 0.0
    """How long each piece waits, in both directions."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value: float = getattr(self, field.name)
            if field.name != "seed" and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{field.name} is {value}; give a number that is 0 or more")
        if not 1 <= self.piece <= PIECE:
            raise ValueError(f"piece is {self.piece}; give 1 to {PIECE} bytes")
        if not self.flap_every or not self.flood_rate:
            raise ValueError("flap_every and flood_rate cannot be 0; set flaps_per_minute or floods_per_minute to 0")


@dataclass(frozen=True, slots=True)
class Event:
    """One fault of a schedule. Every event has all dice; each kind looks at those it needs."""

    at: float
    """Seconds from the start."""
    kind: Kind
    all: bool
    """It hits every connection, not one."""
    pick: float
    """Which connection, as a part of the number there are."""
    direction: Direction
    how: How
    seconds: float
    """How long it lasts; 0 when it is over at once."""
    count: int
    """Bytes before a cut."""
