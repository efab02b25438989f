"""The window: the requests that may be active at a time, and those that wait."""

from __future__ import annotations

import asyncio

MAX_WAITING = 64


class RequestWindow:
    """Assigns places in the order of the requests."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._taken: set[str] = set()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        """By request id, oldest first."""

    def claim(self, request_id: str) -> bool:
        """Return whether the request has a place, taking a free one unless other requests wait."""
        if request_id not in self._taken and not self._waiting and len(self._taken) < self._window:
            self._taken.add(request_id)
        return request_id in self._taken

    def claim_over_limit(self, request_id: str) -> None:
        """Assign a place to work that was begun earlier, even beyond the limit."""
        self._taken.add(request_id)

    async def wait_for_slot(self, request_id: str) -> bool:
        """Return once the request has a place; False if too many wait already. `cancel_waiting` cancels the wait."""
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
        """Free the place for the request that has waited longest."""
        self._taken.discard(request_id)
        for waiting, place in self._waiting.items():
            if len(self._taken) >= self._window:
                return
            if not place.done():
                self._taken.add(waiting)
                place.set_result(None)

    def cancel_waiting(self) -> None:
        """Cancel all waits: the host has disconnected, and will send again what it still wants."""
        for place in self._waiting.values():
            place.cancel()
