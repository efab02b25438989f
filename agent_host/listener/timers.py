"""Timers by the injected clock: one heap, one wake-up call. Tests move the clock and call `run_due`."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

import structlog

from agent_common.clock import Clock

log = structlog.get_logger(__name__)

_MOST_STALE = 1024


class Timer:
    """Calls a function once, unless it is cancelled first."""

    __slots__ = ("_call", "_due", "_frozen", "_owner", "heap_due")

    def __init__(self, owner: Timers, due: float, call: Callable[[], None]) -> None:
        self._owner, self._due = owner, due
        self._call: Callable[[], None] | None = call
        self._frozen: tuple[float, Callable[[], None]] | None = None
        """The seconds that are left and the call, while the timer is frozen; else None."""
        self.heap_due: float | None = None
        """The time of its place in the heap, which may be before `due`; None if it has no place."""

    @property
    def due(self) -> float:
        return self._due

    @property
    def pending(self) -> bool:
        return self._call is not None

    def reschedule(self, seconds: float, call: Callable[[], None]) -> None:
        """Call `call` in `seconds` from now, in place of the call before. Works on a timer that has fired, too."""
        revived = self._call is None and self.heap_due is not None
        self._call, self._frozen, self._due = call, None, self._owner.now() + seconds
        self._owner.on_rescheduled(self, revived=revived)

    def cancel(self) -> None:
        self._frozen = None
        if self._call is not None:
            self._call = None
            self._owner.on_cancelled()

    def freeze(self) -> None:
        """Stop the time until `thaw`."""
        if self._call is not None:
            frozen = self._due - self._owner.now(), self._call
            self.cancel()
            self._frozen = frozen

    def thaw(self) -> None:
        """Continue with the time that was left."""
        if self._frozen is not None:
            self.reschedule(*self._frozen)

    def fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class Timers:
    """All timers of a listener.

    A timer that is put off keeps its place in the heap, and gets its right place when that one comes up: the deadlines
    of work are put off again and again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._stale = 0
        """Places in the heap whose timers were cancelled or moved."""
        self._wake: asyncio.TimerHandle | None = None
        self._closed = False

    def now(self) -> float:
        """The clock that timers are due by, in seconds."""
        return self._clock.monotonic()

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call `call` in `seconds` from now."""
        timer = Timer(self, self._clock.monotonic() + seconds, call)
        self._push(timer)
        return timer

    def on_rescheduled(self, timer: Timer, *, revived: bool) -> None:
        """A timer is due at another time. `revived`: it was cancelled, and its place is used again."""
        self._stale -= revived
        if timer.heap_due is None:
            self._push(timer)
        elif timer.heap_due > timer.due:
            self._stale += 1
            self._push(timer)

    def _push(self, timer: Timer) -> None:
        self._count += 1
        timer.heap_due = timer.due
        heapq.heappush(self._heap, (timer.due, self._count, timer))
        if self._heap[0][2] is timer:
            self._schedule_wake_up()

    def run_due(self) -> None:
        """Run the calls that are due by the clock."""
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now and not self._closed:
            at, _, timer = heapq.heappop(self._heap)
            if timer.heap_due != at:  # it has another place by now, or none
                self._stale -= 1
                continue
            timer.heap_due = None
            if not timer.pending:
                self._stale -= 1
            elif timer.due > at:
                self._push(timer)
            else:
                self._fire(timer)
        self._schedule_wake_up()

    def _fire(self, timer: Timer) -> None:
        try:
            timer.fire()
        except Exception as error:
            log.exception("timer_failed", why=repr(error))  # the other timers must run

    def on_cancelled(self) -> None:
        """A timer was cancelled. Its place in the heap is dropped later, with others."""
        self._stale += 1
        if self._stale > _MOST_STALE and self._stale > len(self._heap) // 2:
            self._drop_stale()

    def _drop_stale(self) -> None:
        kept: list[tuple[float, int, Timer]] = []
        for entry in self._heap:
            timer = entry[2]
            if timer.heap_due == entry[0] and timer.pending:
                kept.append(entry)
            elif timer.heap_due == entry[0]:
                timer.heap_due = None
        heapq.heapify(kept)
        self._heap, self._stale = kept, 0

    def close(self) -> None:
        self._closed = True
        self._heap.clear()
        if self._wake is not None:
            self._wake.cancel()

    def _schedule_wake_up(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if self._heap and not self._closed:
            wait = max(0.0, self._heap[0][0] - self._clock.monotonic())
            self._wake = asyncio.get_running_loop().call_later(wait, self.run_due)
