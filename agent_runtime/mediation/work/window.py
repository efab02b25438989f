"""The window: the requests that may be active at a time, and those that wait."""

from __future__ import annotations

import asyncio

MAX_WAITING = 64


class RequestWindow:
    """Assigns slots in the order of the requests."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._taken: set[str] = set()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        """By request id, oldest first."""

    def claim(self, request_id: str) -> bool:
        """Return whether the request has a slot, taking a free one unless other requests wait."""
        if request_id not in self._taken and not self._waiting and len(self._taken) < self._window:
            self._taken.add(request_id)
        return request_id in self._taken

    def claim_over_limit(self, request_id: str) -> None:
        """Assign a slot to work that was begun earlier, even beyond the limit."""
        self._taken.add(request_id)

    async def wait_for_slot(self, request_id: str) -> bool:
        """Return once the request has a slot; False if too many wait already. `cancel_waiting` cancels the wait."""
        if self.claim(request_id):
            return True
        if len(self._waiting) >= MAX_WAITING:
            return False
        slot = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        try:
            await slot
        finally:
            self._waiting.pop(request_id, None)
        return True

    def release(self, request_id: str) -> None:
        """Free the slot for the request that has waited longest."""
        self._taken.discard(request_id)
        for waiting, slot in self._waiting.items():
            if len(self._taken) >= self._window:
                return
            if not slot.done():
                self._taken.add(waiting)
                slot.set_result(None)

    def cancel_waiting(self) -> None:
        """Cancel all waits: the host has disconnected, and will send again what it still wants."""
        for slot in self._waiting.values():
            slot.cancel()
