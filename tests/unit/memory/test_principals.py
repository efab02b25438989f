"""One principal never sees another's: whatever happens, his memory answers as if he were alone in the world."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from agent_runtime.errors import ToolFailure
from agent_runtime.ports import MemoryHit
from agent_runtime.workspace import personal_folder
from agent_testing import ManualClock

from .world import World, world

T = TypeVar("T")
WHO = ("ada", "bob", "Ada", "", "operator", "ad a", "1", "12")
"""Some whose names begin alike, look alike, or look like the numbers of scopes."""
WORDS = (
    "tea",
    "rum",
    "dentist",
    "Tuesday",
    "server",
    "bremen",
    "狗",
    "名字",
    "医生",
    "1wtea",
    "2",
    "OR",
    '"',
    "Müller",
)
WRITTEN = (0, 1_790_000_000_000_000_000)
"""When all files were last read and written, in nanoseconds."""
DAYS = ("2026-11-20", "2026-11-21")
who = st.sampled_from(WHO)
said = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
tags = st.lists(st.sampled_from(WORDS), max_size=2)


class Principals(RuleBasedStateMachine):
    """What all of them get from the memory that they share, beside what each gets from one of his own."""

    def __init__(self) -> None:
        super().__init__()
        self.loop, self.stack = asyncio.Runner(), AsyncExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="memory-"))
        self.clock = ManualClock()
        self.shared = self.open("shared")
        self.alone: dict[str, World] = {}
        self.names: dict[str, dict[str, str]] = {name: {} for name in WHO}
        """Ids of facts and sessions: in the shared world -> in the one of their own."""

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(work)

    def open(self, name: str) -> World:
        opened = self.do(self.stack.enter_async_context(world(self.folder / name, self.clock, max_facts=6)))
        os.utime(opened.file("notes.md", "The server is called bremen, the dentist Ñu."), ns=WRITTEN)
        return opened

    def own(self, name: str) -> World:
        if name not in self.alone:
            self.alone[name] = self.open(f"own-{WHO.index(name)}")
        return self.alone[name]

    def both(self, name: str) -> tuple[World, World]:
        return self.shared, self.own(name)

    @initialize()
    def everybody_has_the_same_fact(self) -> None:
        for name in WHO[:3]:
            self.save(name, "tea at the dentist", [], "bob")

    @rule(name=who, text=said, labels=tags, other=who)
    def save(self, name: str, text: str, labels: list[str], other: str) -> None:
        here, there = (self.outcome(one.save(text, name, labels)) for one in self.both(name))
        if isinstance(here, str):
            assert here == there
        else:
            assert (here.text, here.known) == (there.text, there.known)
            assert self.names[name].setdefault(here.id, there.id) == there.id
        self.search(other, text, 20)

    @rule(name=who, asked=said, answered=said, other=who)
    def talk(self, name: str, asked: str, answered: str, other: str) -> None:
        here, there = (self.do(one.begin(name)) for one in self.both(name))
        self.names[name][here] = there
        now = self.clock.now_ms()
        for one, session in zip(self.both(name), (here, there), strict=True):
            self.clock.set_wall(now)
            self.do(one.talk(session, asked, answered))
        self.search(other, answered, 20)

    @rule(name=who, text=said, day=st.sampled_from(DAYS), other=who)
    def write(self, name: str, text: str, day: str, other: str) -> None:
        for one in self.both(name):
            path = personal_folder(one.home, name) / "memory" / f"{day}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            os.utime(path, ns=WRITTEN)
        self.shared.look_again()
        self.search(other, text, 20)

    @rule(name=who, query=said, most=st.integers(1, 20))
    def search(self, name: str, query: str, most: int) -> None:
        here, there = (self.do(one.search(query, name, limit=most)) for one in self.both(name))
        assert self.as_own(name, here) == there

    @rule(name=who, query=said)
    def recall(self, name: str, query: str) -> None:
        here, there = (
            self.do(one.memory.recall(query, principal=name, session_id="t", limit=5)) for one in self.both(name)
        )
        assert self.as_own(name, list(here)) == list(there)

    @rule(name=who, other=who, data=st.data())
    def forget(self, name: str, other: str, data: st.DataObject) -> None:
        ids = sorted(one for one in self.names[other] if one.startswith("mem_"))
        fact = data.draw(st.sampled_from(ids)) if ids else "mem_0"
        there = self.names[name].get(fact, fact)
        here = self.outcome(self.shared.memory.forget(fact, principal=name))
        assert here.replace(fact, there) == self.outcome(self.own(name).memory.forget(there, principal=name))
        assert (name == other) or "there is no fact" in here

    @rule(hours=st.integers(0, 2000))
    def time_goes_by(self, hours: int) -> None:
        self.clock.advance(hours * 3600)

    def outcome(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self.do(work)
        except ToolFailure as failure:
            return failure.message

    def as_own(self, name: str, found: list[MemoryHit]) -> list[MemoryHit]:
        """What was found, with the ids of the other world. Raises KeyError for what is not his."""
        ids = self.names[name]

        def own(one: MemoryHit) -> MemoryHit:
            kind, _, session = one.source.partition(" ")
            source = f"session {ids[session]}" if kind == "session" else one.source
            return replace(one, source=source, id=ids[one.id] if one.id else "")

        return [own(one) for one in found]

    def teardown(self) -> None:
        self.do(self.stack.aclose())
        self.loop.close()
        shutil.rmtree(self.folder)


TestPrincipals = Principals.TestCase
# An example is a database with 25 changes, a second's work: three in the profile `dev`, fifteen in `ci`.
TestPrincipals.settings = settings(max_examples=min(15, settings().max_examples // 8), stateful_step_count=25)
