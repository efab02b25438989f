"""Whatever comes and goes, no worker is lost: each one waits, is in use, or was handed back to be closed."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent_runtime.skills.workers.idle_workers import IdleWorkers

OWNERS = st.sampled_from("abcdef")


class Coming(RuleBasedStateMachine):
    @initialize(most=st.integers(1, 4))
    def begin(self, most: int) -> None:
        self.most, self.now = most, 0.0
        self.idle: Any = IdleWorkers(most)
        self.waiting: list[tuple[str, int, float]] = []
        """Owner, worker, since when; the oldest first."""
        self.workers = 0

    def of(self, owner: str) -> list[tuple[str, int, float]]:
        return [one for one in self.waiting if one[0] == owner]

    @rule(owner=OWNERS)
    def take(self, owner: str) -> None:
        mine = self.of(owner)
        assert self.idle.pop(owner) == (mine[-1][1] if mine else None)
        if mine:
            self.waiting.remove(mine[-1])

    @rule(owner=OWNERS, later=st.integers(0, 3))
    def put(self, owner: str, later: int) -> None:
        self.now += later
        self.workers += 1
        self.waiting.append((owner, self.workers, self.now))
        leaving = self.idle.add(owner, self.workers, self.now)
        if len(self.waiting) <= self.most:
            assert leaving is None
            return
        [gone] = [one for one in self.waiting if one[1] == leaving]
        crowded = [one for one in self.waiting if len(self.of(one[0])) > 1]
        assert gone == (crowded or self.waiting)[0]
        self.waiting.remove(gone)

    @rule(owner=OWNERS, age=st.integers(0, 6))
    def thin(self, owner: str, age: int) -> None:
        before = self.now - age
        mine = self.of(owner)
        assume(mine)
        old = [one for one in mine[:-1] if one[2] <= before]
        assert self.idle.pop_idle_since(owner, before) == [one[1] for one in old]
        self.waiting = [one for one in self.waiting if one not in old]
        assert self.of(owner)

    @invariant()
    def several_are_known(self) -> None:
        for owner in "abcdef":
            assert self.idle.has_several(owner) == (len(self.of(owner)) > 1)


TestComing = Coming.TestCase
