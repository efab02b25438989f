"""Rows that wait for the next commit of the ledger, and the callbacks and futures that wait for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from .promotions import NewResult
from .sql import Batch, Row, Values
from .work import OpenWork

Callback = Callable[[], None]

MOST_AUDIT_ROWS = 50_000
"""Waiting rows of the audit trail, above which reading from workspaces with more than the average pauses."""
MOST_SHARE = 4096
"""Waiting rows of one workspace, above which reading from it pauses."""
MOST_UNWRITTEN = 4 * MOST_SHARE
"""Waiting rows of one workspace, above which it gets no new work."""


@dataclass(slots=True)
class WaitingRows:
    """The rows of the next commit. Values are read from the objects when the commit begins."""

    new: dict[str, tuple[OpenWork, asyncio.Future[Row | None]]] = field(
        default_factory=dict[str, tuple[OpenWork, asyncio.Future["Row | None"]]]
    )
    dirty: dict[str, OpenWork] = field(default_factory=dict[str, OpenWork])
    delivered: dict[str, int] = field(default_factory=dict[str, int])
    results: list[NewResult] = field(default_factory=list[NewResult])
    audit: list[Values] = field(default_factory=list[Values])
    audit_counts: Counter[str | None] = field(default_factory=Counter[str | None])
    """Waiting rows of the audit trail by workspace."""
    epochs: dict[str, int] = field(default_factory=dict[str, int])
    callbacks: list[Callback] = field(default_factory=list[Callback])
    """Called once the rows are durable."""
    flushes: list[asyncio.Future[None]] = field(default_factory=list[asyncio.Future[None]])
    """Done once the commit has succeeded or failed."""

    @property
    def urgent(self) -> bool:
        """Whether a caller waits for the commit."""
        return bool(self.new or self.callbacks or self.flushes)

    @property
    def pending(self) -> bool:
        """Whether there is anything to write."""
        return self.urgent or bool(self.dirty or self.delivered or self.results or self.audit or self.epochs)

    def append_audit(self, row: Values) -> None:
        """Add a row of the audit trail."""
        self.audit.append(row)
        self.audit_counts[row[1]] += 1

    def is_behind(self, workspace: str) -> bool:
        """Return whether so many rows of the workspace wait that reading from it should pause."""
        mine = self.audit_counts.get(workspace, 0)
        return mine >= MOST_SHARE or (
            len(self.audit) >= MOST_AUDIT_ROWS and mine * len(self.audit_counts) >= len(self.audit)
        )

    def to_batch(self) -> Batch:
        """Return the current values of all rows."""
        return {
            "admit": [work.row() for work, _ in self.new.values()],
            # Refused work has no row: the row with its id belongs to earlier work.
            "change": [
                (work.id, *work.changed_values())
                for work in self.dirty.values()
                if work.id not in self.new and not work.refused
            ],
            "deliver": list(self.delivered.items()),
            "results": [row.values for row in self.results if row.promotions is None],
            "promoting": [row for row in self.results if row.promotions is not None],
            "audit": self.audit,
            "epochs": list(self.epochs.items()),
        }

    def merge_failed(self, earlier: WaitingRows) -> None:
        """Put the rows of a failed commit before newer ones. New work is left out: it was refused."""
        self.dirty = {**{name: work for name, work in earlier.dirty.items() if name not in earlier.new}, **self.dirty}
        self.delivered = {**earlier.delivered, **self.delivered}
        self.results = earlier.results + self.results
        self.audit = (earlier.audit + self.audit)[:MOST_AUDIT_ROWS]
        self.audit_counts = Counter(row[1] for row in self.audit)
        self.epochs = {**earlier.epochs, **self.epochs}
        self.callbacks = earlier.callbacks + self.callbacks
