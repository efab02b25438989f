"""How principals share the slots of running turns and the queue of waiting ones."""

from __future__ import annotations

from agent_common.net import ShareCounter, fits_share


class TurnSlots:
    """Slots of turns that run at the same time. No slot stays free while a turn waits: a principal may have all of them
    until another one waits, which then gets the next."""

    def __init__(self, slots: int, queue_limit: int) -> None:
        """`queue_limit`: how many turns of one principal may wait; those of all may be twice as many."""
        self._running = ShareCounter(slots)
        self._queue_limit = queue_limit

    @property
    def free(self) -> int:
        return self._running.free

    def running(self, principal: str) -> int:
        return self._running.held(principal)

    def may_wait(self, waiting: int, own: int) -> bool:
        """Whether one more turn may wait, if `own` of the `waiting` ones are of the same principal."""
        return fits_share(2 * self._queue_limit - waiting, own)

    def take(self, principal: str, slots: int = 1) -> None:
        """Take slots, if need be more than there are; a negative number gives them back."""
        self._running.take(principal, slots)
