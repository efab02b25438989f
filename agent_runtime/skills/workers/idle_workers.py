"""Keep workers that wait for their next call: per build as many as were recently busy at once, up to a total limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

W = TypeVar("W")
"""A worker."""
MAX_IDLE = 16
"""Idle workers of all plugins. Each takes about ten megabytes; a plugin without one starts one for its next call."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting(Generic[W]):
    owner: object
    worker: W
    since: float


class IdleWorkers(Generic[W]):
    """Idle workers by owner. The one added last is used first, so that surplus workers stay idle and can be closed."""

    def __init__(self, limit: int = MAX_IDLE) -> None:
        self._limit = limit
        self._waiting: list[_Waiting[W]] = []
        """The longest waiting first."""

    def pop(self, owner: object) -> W | None:
        """Remove and return a worker of the owner; None if it has none."""
        mine = self._waiting_of(owner)
        return self._remove(mine[-1]) if mine else None

    def add(self, owner: object, worker: W, now: float) -> W | None:
        """Add a worker; `now` is in seconds. Return a worker that must be closed to make room, or None."""
        self._waiting.append(_Waiting(owner, worker, now))
        if len(self._waiting) <= self._limit:
            return None
        # A surplus worker of some owner goes before an owner's only one.
        several = (one for one in self._waiting if len(self._waiting_of(one.owner)) > 1)
        return self._remove(next(several, self._waiting[0]))

    def has_several(self, owner: object) -> bool:
        """Whether more than one worker of the owner is idle."""
        return len(self._waiting_of(owner)) > 1

    def pop_idle_since(self, owner: object, before: float) -> list[W]:
        """Remove and return the workers that have been idle since `before`, but never the owner's last one."""
        return [self._remove(one) for one in self._waiting_of(owner)[:-1] if one.since <= before]

    def _waiting_of(self, owner: object) -> Sequence[_Waiting[W]]:
        return [one for one in self._waiting if one.owner is owner]

    def _remove(self, one: _Waiting[W]) -> W:
        self._waiting.remove(one)
        return one.worker
