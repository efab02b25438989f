"""How principals share the slots of running turns and the queue of waiting ones."""

from __future__ import annotations

from collections.abc import Iterable

from agent_common.net import ShareCounter, fits_share


class TurnSlots:
    """Slots of turns that run at the same time. A principal that is the only one may have all of them; as soon as there
    are others, it may have as many as it leaves free."""

    def __init__(self, slots: int, queue_limit: int) -> None:
        """`queue_limit`: how many turns of one principal may wait; those of all may be twice as many."""
        self._running, self._queue_limit = ShareCounter(slots), queue_limit
        self._principals: set[str] = set()
        """At most two: one more makes no difference."""

    @property
    def free(self) -> int:
        return self._running.free

    def know(self, principals: Iterable[str]) -> None:
        """Take note of principals that use this agent."""
        for principal in principals:
            if len(self._principals) < 2:
                self._principals.add(principal)

    def running(self, principal: str) -> int:
        return self._running.held(principal)

    def has_slot(self, principal: str) -> bool:
        """Whether one more turn of the principal may start."""
        return self.free > 0 and (len(self._principals) < 2 or self._running.fits(principal))

    def may_wait(self, waiting: int, own: int) -> bool:
        """Whether one more turn may wait, if `own` of the `waiting` ones are of the same principal."""
        return fits_share(2 * self._queue_limit - waiting, own)

    def take(self, principal: str, slots: int = 1) -> None:
        """Take slots, if need be more than there are; a negative number gives them back."""
        self._running.take(principal, slots)
