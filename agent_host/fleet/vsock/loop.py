"""A poll loop with one callback for each file, and timers."""

from __future__ import annotations

import heapq
import select
import time
from collections.abc import Callable
from itertools import count

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
_BROKEN = select.EPOLLERR | select.EPOLLHUP
_EVENTS_A_TURN = 256
Callback = Callable[[int], None]
"""Called with the possible operations, READ and WRITE. A broken file reports both, as the next call raises its
error."""


class LoopTimer:
    """A timer that can be cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class PollLoop:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._epoll = select.epoll()
        self._clock = clock
        self._callbacks: dict[int, Callback] = {}
        self._timers: list[tuple[float, int, LoopTimer]] = []
        self._order = count()
        self._live_timers = 0

    def watch(self, handle: int, events: int, callback: Callback) -> None:
        """Watch a file for the events, in place of those watched so far. With no events stop watching it, because a
        hang-up that no one reads would be reported forever."""
        if not events:
            self.forget(handle)
            return
        if handle in self._callbacks:
            self._epoll.modify(handle, events)
        else:
            self._epoll.register(handle, events)
        self._callbacks[handle] = callback

    def forget(self, handle: int) -> None:
        """Stop watching a file; call before closing it. Idempotent."""
        if self._callbacks.pop(handle, None) is not None:
            self._epoll.unregister(handle)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> LoopTimer:
        timer = LoopTimer(callback)
        heapq.heappush(self._timers, (self._clock() + seconds, next(self._order), timer))
        if len(self._timers) > 2 * self._live_timers + 64:
            self._drop_cancelled()
        return timer

    def run_once(self, timeout: float | None = None) -> None:
        """Poll once, up to `timeout` seconds (None: until an event), and run the ready callbacks."""
        for handle, events in self._epoll.poll(self._poll_timeout(timeout), _EVENTS_A_TURN):
            callback = self._callbacks.get(handle)
            if callback is not None:  # else an earlier callback has just closed it
                callback(READ | WRITE if events & _BROKEN else events)
        while self._timers and self._timers[0][0] <= self._clock():
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                timer.callback()

    def close(self) -> None:
        self._callbacks.clear()
        self._epoll.close()

    def _poll_timeout(self, timeout: float | None) -> float | None:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return timeout
        due = max(0.0, self._timers[0][0] - self._clock())
        return due if timeout is None else min(due, timeout)

    def _drop_cancelled(self) -> None:
        """Remove cancelled timers, which would otherwise collect until a long timer is due."""
        self._timers = [entry for entry in self._timers if entry[2].callback is not None]
        heapq.heapify(self._timers)
        self._live_timers = len(self._timers)
