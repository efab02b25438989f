"""The window: the requests that have a place in it, and those that wait for one."""

from __future__ import annotations

import asyncio

MAX_WAITING = 64


class RequestWindow:
    """Gives places in the order in which requests ask for them."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._taken: set[str] = set()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        """Oldest first."""

    def claim(self, request_id: str) -> bool:
        """Whether the request has a place now; nothing overtakes what waits."""
        if request_id not in self._taken and not self._waiting and len(self._taken) < self._window:
            self._taken.add(request_id)
        return request_id in self._taken

    def claim_over_limit(self, request_id: str) -> None:
        """Gives a place to work that was begun before, however full the window is."""
        self._taken.add(request_id)

    async def wait_for_slot(self, request_id: str) -> bool:
        """Returns once the request has a place; False when too many wait already. Cancelled by `clear`."""
        if self.claim(request_id):
            return True
        if len(self._waiting) >= MAX_WAITING:
            return False
        place = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        try:
            await place
        finally:
            self._waiting.pop(request_id, None)
        return True

    def release(self, request_id: str) -> None:
        """Gives the place to the request that has waited longest."""
        self._taken.discard(request_id)
        for waiting, place in self._waiting.items():
            if len(self._taken) >= self._window:
                return
            if not place.done():
                self._taken.add(waiting)
                place.set_result(None)

    def cancel_waiting(self) -> None:
        """Drops all that wait: their host has gone, and sends again what it still wants."""
        for place in self._waiting.values():
            place.cancel()
