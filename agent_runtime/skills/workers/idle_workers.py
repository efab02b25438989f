"""Workers that wait for their next call: of each build as many as were busy at once lately, and not too many in all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .process import WorkerProcess

MAX_IDLE = 16
"""Of all plugins together. Each takes some ten megabytes; a plugin without one starts one with its next call."""


class _Waiting(NamedTuple):
    owner: object
    process: WorkerProcess
    since: float


class IdleWorkers:
    """By what they belong to. The one that came last is used first, so that the others can be seen to be too many."""

    def __init__(self, limit: int = MAX_IDLE) -> None:
        self._limit = limit
        self._waiting: list[_Waiting] = []
        """Who has waited longest comes first."""

    def pop(self, owner: object) -> WorkerProcess | None:
        """Hands out a worker of the owner, who uses it from then on."""
        mine = self._waiting_of(owner)
        return self._remove(mine[-1]) if mine else None

    def add(self, owner: object, process: WorkerProcess, now: float) -> WorkerProcess | None:
        """Takes a worker in at a moment, in seconds; gives back one that must be closed for it."""
        self._waiting.append(_Waiting(owner, process, now))
        if len(self._waiting) <= self._limit:
            return None
        # One of several that wait for the same, before anybody's only one.
        several = (one for one in self._waiting if len(self._waiting_of(one.owner)) > 1)
        return self._remove(next(several, self._waiting[0]))

    def has_several(self, owner: object) -> bool:
        """Whether more than one waits."""
        return len(self._waiting_of(owner)) > 1

    def pop_idle_since(self, owner: object, before: float) -> list[WorkerProcess]:
        """Gives back, to be closed, who has waited since before that moment, but never the last one of an owner."""
        return [self._remove(one) for one in self._waiting_of(owner)[:-1] if one.since <= before]

    def _waiting_of(self, owner: object) -> Sequence[_Waiting]:
        return [one for one in self._waiting if one.owner is owner]

    def _remove(self, one: _Waiting) -> WorkerProcess:
        self._waiting.remove(one)
        return one.process
