"""Deadlines: each is kept once, however often it was put off, taken back or stopped before."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from agent_common.clock import SystemClock
from agent_host.listener.timers import Timer, Timers
from agent_testing import ManualClock

SECONDS = st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0, 60.0])
WHICH = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.just(0), SECONDS),
        st.tuples(st.just("again"), WHICH, SECONDS),
        st.tuples(st.sampled_from(["cancel", "freeze", "thaw"]), WHICH, st.just(0.0)),
    ),
    max_size=40,
)


class Expected:
    """The same with nothing clever about it: for each timer when it is due, or how much is left of it."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.timers: list[Timer] = []
        self.due: list[float | None] = []
        self.left: list[float | None] = []
        self.fired: list[int] = []

    def call(self, number: int) -> Callable[[], None]:
        return lambda: self.fired.append(number)

    def add(self, timers: Timers, seconds: float) -> None:
        self.timers.append(timers.call_later(seconds, self.call(len(self.timers))))
        self.due.append(self._clock.monotonic() + seconds)
        self.left.append(None)

    def step(self, what: str, which: int, seconds: float) -> None:
        if what == "pass":
            self._run(seconds)
        else:
            self._change(what, which, seconds)

    def _change(self, what: str, which: int, seconds: float) -> None:
        now, timer, due, left = self._clock.monotonic(), self.timers[which], self.due[which], self.left[which]
        if what == "again":
            timer.reschedule(seconds, self.call(which))
            self.due[which], self.left[which] = now + seconds, None
        elif what == "cancel":
            timer.cancel()
            self.due[which] = self.left[which] = None
        elif what == "freeze":
            timer.freeze()
            if due is not None:
                self.due[which], self.left[which] = None, due - now
        else:
            timer.thaw()
            if left is not None:
                self.due[which], self.left[which] = now + left, None

    def _run(self, seconds: float) -> None:
        """Those that are due are called, in the order in which they were, and no others."""
        now = self._clock.monotonic() + seconds
        expected = {number: due for number, due in enumerate(self.due) if due is not None and due <= now}
        self.fired.clear()
        self._clock.advance(seconds)
        assert sorted(self.fired) == sorted(expected)
        assert [expected[number] for number in self.fired] == sorted(expected.values())
        for number in expected:
            self.due[number] = None
        assert [timer.pending for timer in self.timers] == [due is not None for due in self.due]


@given(STEPS)
def test_each_is_called_when_it_is_due(steps: list[tuple[str, int, float]]) -> None:
    async def run() -> None:
        clock = ManualClock()
        timers, expected = Timers(clock), Expected(clock)
        for number in range(3):
            expected.add(timers, number * 2.0)
        for step in (*steps, ("pass", 0, 1000.0)):
            expected.step(*step)
        timers.close()

    asyncio.run(run())


async def test_those_that_were_taken_back_are_let_go() -> None:
    timers = Timers(SystemClock())
    for _ in range(10_000):
        timers.call_later(3600.0, lambda: None).cancel()
    assert sum(type(one) is Timer for one in gc.get_objects()) < 4000


async def test_one_is_kept_that_is_put_off_after_it_was_taken_back() -> None:
    clock, fired = ManualClock(), list[int]()
    kept = Timers(clock).call_later(3600.0, lambda: fired.append(0))
    kept.cancel()
    kept.reschedule(7200.0, lambda: fired.append(1))
    clock.advance(7200.0)
    assert fired == [1]


async def test_none_fires_once_all_are_closed() -> None:
    clock, fired = ManualClock(), list[int]()
    timers = Timers(clock)
    timers.call_later(1.0, lambda: fired.append(0))
    timers.close()
    clock.advance(1.0)
    assert fired == []


async def test_one_that_fails_holds_up_no_other() -> None:
    clock, fired = ManualClock(), list[int]()
    timers = Timers(clock)
    timers.call_later(1.0, lambda: fired.append(1 // 0))
    timers.call_later(1.0, lambda: fired.append(2))
    clock.advance(1.0)
    assert fired == [2]
