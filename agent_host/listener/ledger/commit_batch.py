"""What was handed in for the next commit of the ledger, and whom to tell of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..dispatch.work import OpenWork
from .sql import Values

Row = dict[str, Any]
Call = Callable[[], None]

MOST_TRAIL = 50_000
"""Rows of the audit trail that wait; with more of them, workspaces with more than the average are not listened to."""
MOST_SHARE = 4096
"""Rows of one workspace that wait; with more of them it is not listened to."""
MOST_UNWRITTEN = 4 * MOST_SHARE
"""Rows of one workspace that wait; with more of them it gets no new work."""
MOST_ALONG = 64
"""Rows that nobody waits for and that go along with what somebody waits for. More of them would hold it up."""


@dataclass(slots=True)
class CommitBatch:
    """Rows of one commit."""

    admit: list[Values] = field(default_factory=list[Values])
    change: list[Values] = field(default_factory=list[Values])
    deliver: list[Values] = field(default_factory=list[Values])
    trail: list[Values] = field(default_factory=list[Values])
    epochs: list[Values] = field(default_factory=list[Values])


@dataclass(slots=True)
class WaitingWrite:
    """Rows as they lie in memory: they are taken when the commit begins."""

    new: dict[str, tuple[OpenWork, asyncio.Future[Row | None]]] = field(
        default_factory=dict[str, tuple[OpenWork, asyncio.Future["Row | None"]]]
    )
    dirty: dict[str, OpenWork] = field(default_factory=dict[str, OpenWork])
    delivered: dict[str, int] = field(default_factory=dict[str, int])
    trail: list[Values] = field(default_factory=list[Values])
    shares: Counter[str | None] = field(default_factory=Counter[str | None])
    """How many rows of the trail each workspace has."""
    epochs: dict[str, int] = field(default_factory=dict[str, int])
    calls: list[Call] = field(default_factory=list[Call])
    whole: bool = False
    """Somebody waits for everything."""

    @property
    def urgent(self) -> bool:
        """Somebody waits."""
        return bool(self.new or self.calls)

    @property
    def much(self) -> bool:
        """Of what nobody waits for."""
        return len(self.trail) + len(self.delivered) > MOST_ALONG

    @property
    def anything(self) -> bool:
        return bool(self.new or self.calls or self.dirty or self.delivered or self.trail or self.epochs)

    def note(self, row: Values) -> None:
        """One more row of the trail."""
        self.trail.append(row)
        self.shares[row[1]] += 1

    def behind(self, workspace: str) -> bool:
        """Whether so much of the workspace's trail waits that no more of it should come."""
        mine = self.shares.get(workspace, 0)
        return mine >= MOST_SHARE or (len(self.trail) >= MOST_TRAIL and mine * len(self.shares) >= len(self.trail))

    def split(self) -> WaitingWrite:
        """Takes out what nobody waits for, where it would hold up those who wait."""
        behind = WaitingWrite()
        if self.much and self.urgent and not self.whole:
            behind.trail, self.trail = self.trail, []
            behind.shares, self.shares = self.shares, behind.shares
            behind.delivered, self.delivered = self.delivered, {}
        return behind

    def batch(self) -> CommitBatch:
        """As it is now."""
        return CommitBatch(
            admit=[work.row() for work, _ in self.new.values()],
            # What was refused has no row: the one with its id is of work that came before it.
            change=[
                (work.id, *work.changed())
                for work in self.dirty.values()
                if work.id not in self.new and not work.refused
            ],
            deliver=list(self.delivered.items()),
            trail=self.trail,
            epochs=list(self.epochs.items()),
        )

    def put_back(self, earlier: WaitingWrite) -> None:
        """What did not get to the disk comes before what is younger. New work does not come back: it was refused."""
        self.dirty = {**{name: work for name, work in earlier.dirty.items() if name not in earlier.new}, **self.dirty}
        self.delivered = {**earlier.delivered, **self.delivered}
        self.trail = (earlier.trail + self.trail)[:MOST_TRAIL]
        self.shares = Counter(row[1] for row in self.trail)
        self.epochs = {**earlier.epochs, **self.epochs}
        self.calls = earlier.calls + self.calls
        self.whole = earlier.whole or self.whole
