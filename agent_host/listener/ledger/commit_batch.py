"""What was handed in for the next commit of the ledger, and whom to tell of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .sql import Values
from .work import OpenWork

Row = dict[str, Any]
Callback = Callable[[], None]

MOST_AUDIT_ROWS = 50_000
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
    audit: list[Values] = field(default_factory=list[Values])
    epochs: list[Values] = field(default_factory=list[Values])


@dataclass(slots=True)
class WaitingWrite:
    """Rows as they lie in memory: they are taken when the commit begins."""

    new: dict[str, tuple[OpenWork, asyncio.Future[Row | None]]] = field(
        default_factory=dict[str, tuple[OpenWork, asyncio.Future["Row | None"]]]
    )
    dirty: dict[str, OpenWork] = field(default_factory=dict[str, OpenWork])
    delivered: dict[str, int] = field(default_factory=dict[str, int])
    audit: list[Values] = field(default_factory=list[Values])
    audit_counts: Counter[str | None] = field(default_factory=Counter[str | None])
    """How many rows of the trail each workspace has."""
    epochs: dict[str, int] = field(default_factory=dict[str, int])
    callbacks: list[Callback] = field(default_factory=list[Callback])
    flush_all: bool = False
    """Somebody waits for everything."""

    @property
    def urgent(self) -> bool:
        """Somebody waits."""
        return bool(self.new or self.callbacks)

    @property
    def has_many_unawaited(self) -> bool:
        """Of what nobody waits for."""
        return len(self.audit) + len(self.delivered) > MOST_ALONG

    @property
    def has_pending(self) -> bool:
        return bool(self.new or self.callbacks or self.dirty or self.delivered or self.audit or self.epochs)

    def append_audit(self, row: Values) -> None:
        """One more row of the trail."""
        self.audit.append(row)
        self.audit_counts[row[1]] += 1

    def is_behind(self, workspace: str) -> bool:
        """Whether so much of the workspace's trail waits that no more of it should come."""
        mine = self.audit_counts.get(workspace, 0)
        return mine >= MOST_SHARE or (
            len(self.audit) >= MOST_AUDIT_ROWS and mine * len(self.audit_counts) >= len(self.audit)
        )

    def split_unawaited(self) -> WaitingWrite:
        """Takes out what nobody waits for, where it would hold up those who wait."""
        behind = WaitingWrite()
        if self.has_many_unawaited and self.urgent and not self.flush_all:
            behind.audit, self.audit = self.audit, []
            behind.audit_counts, self.audit_counts = self.audit_counts, behind.audit_counts
            behind.delivered, self.delivered = self.delivered, {}
        return behind

    def to_batch(self) -> CommitBatch:
        """As it is now."""
        return CommitBatch(
            admit=[work.row() for work, _ in self.new.values()],
            # What was refused has no row: the one with its id is of work that came before it.
            change=[
                (work.id, *work.changed_values())
                for work in self.dirty.values()
                if work.id not in self.new and not work.refused
            ],
            deliver=list(self.delivered.items()),
            audit=self.audit,
            epochs=list(self.epochs.items()),
        )

    def merge_failed(self, earlier: WaitingWrite) -> None:
        """What did not get to the disk comes before what is younger. New work does not come back: it was refused."""
        self.dirty = {**{name: work for name, work in earlier.dirty.items() if name not in earlier.new}, **self.dirty}
        self.delivered = {**earlier.delivered, **self.delivered}
        self.audit = (earlier.audit + self.audit)[:MOST_AUDIT_ROWS]
        self.audit_counts = Counter(row[1] for row in self.audit)
        self.epochs = {**earlier.epochs, **self.epochs}
        self.callbacks = earlier.callbacks + self.callbacks
        self.flush_all = earlier.flush_all or self.flush_all
