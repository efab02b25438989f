"""Workers that wait for their next call: of each build as many as were busy at once lately, and not too many in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

W = TypeVar("W")
"""A worker."""
MAX_IDLE = 16
"""Of all plugins together. Each takes some ten megabytes; a plugin without one starts one with its next call."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting(Generic[W]):
    owner: object
    worker: W
    since: float


class IdleWorkers(Generic[W]):
    """By what they belong to. The one that came last is used first, so that the others can be seen to be too many."""

    def __init__(self, limit: int = MAX_IDLE) -> None:
        self._limit = limit
        self._waiting: list[_Waiting[W]] = []
        """Who has waited longest comes first."""

    def pop(self, owner: object) -> W | None:
        """Hands out a worker of the owner, who uses it from then on."""
        mine = self._waiting_of(owner)
        return self._remove(mine[-1]) if mine else None

    def add(self, owner: object, worker: W, now: float) -> W | None:
        """Takes a worker in at a moment, in seconds; gives back one that must be closed for it."""
        self._waiting.append(_Waiting(owner, worker, now))
        if len(self._waiting) <= self._limit:
            return None
        # One of several that wait for the same, before anybody's only one.
        several = (one for one in self._waiting if len(self._waiting_of(one.owner)) > 1)
        return self._remove(next(several, self._waiting[0]))

    def has_several(self, owner: object) -> bool:
        """Whether more than one waits."""
        return len(self._waiting_of(owner)) > 1

    def pop_idle_since(self, owner: object, before: float) -> list[W]:
        """Gives back, to be closed, who has waited since before that moment, but never the last one of an owner."""
        return [self._remove(one) for one in self._waiting_of(owner)[:-1] if one.since <= before]

    def _waiting_of(self, owner: object) -> Sequence[_Waiting[W]]:
        return [one for one in self._waiting if one.owner is owner]

    def _remove(self, one: _Waiting[W]) -> W:
        self._waiting.remove(one)
        return one.worker
