"""Timers of the listener, which can be rescheduled, and frozen while an agent's machine is paused."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from agent_common.clock import Clock, ScheduledCall

log = structlog.get_logger(__name__)


class Timer:
    """Calls a function once, unless it is cancelled first."""

    __slots__ = ("_call", "_due", "_owner", "_scheduled", "_seconds_left")

    def __init__(self, owner: Timers, seconds: float, call: Callable[[], object]) -> None:
        self._owner = owner
        self._scheduled: ScheduledCall | None = None
        self.reschedule(seconds, call)

    @property
    def pending(self) -> bool:
        """Whether the call is due; False while it is frozen."""
        return self._scheduled is not None

    def reschedule(self, seconds: float, call: Callable[[], object]) -> None:
        """Call `call` in `seconds` from now, in place of the previous call. Works on a timer that has fired, too."""
        self.cancel()
        self._call = call
        self._due = self._owner.clock.monotonic() + seconds
        self._scheduled = self._owner.clock.call_later(seconds, self._fire)

    def cancel(self) -> None:
        """Cancel the call, even if it is frozen."""
        self._seconds_left: float | None = None
        """Seconds that were left when it was frozen; None if it is not."""
        self._call: Callable[[], object] | None = None
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None

    def freeze(self) -> None:
        """Stop the time until `thaw`."""
        if self._scheduled is not None:
            left = self._due - self._owner.clock.monotonic()
            call = self._call
            self.cancel()
            self._seconds_left = left
            self._call = call

    def thaw(self) -> None:
        """Continue with the time that was left."""
        if self._seconds_left is not None and self._call is not None:
            self.reschedule(max(0.0, self._seconds_left), self._call)

    def _fire(self) -> None:
        call = self._call
        self._call = None
        self._scheduled = None
        if call is None or self._owner.closed:
            return
        try:
            call()
        except Exception as error:
            log.exception("timer_failed", why=repr(error))  # the other timers must run


class Timers:
    """All timers of a listener; none fires once it is closed."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.closed = False

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call `call` in `seconds` from now."""
        return Timer(self, seconds, call)

    def close(self) -> None:
        """Let no timer fire any more."""
        self.closed = True
