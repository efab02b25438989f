"""Slots of turns: all for one user while nobody else waits, and the next one for who has the fewest."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.loop import MIGRATIONS, Admission, EventBus, Turn
from agent_runtime.loop.core.turn_state import TurnOutcome
from agent_runtime.loop.scheduling.admission import STREAM_BYTES
from agent_runtime.store import Database
from agent_testing import ManualClock
from tests.unit.loop.support import conversation, new_turn

SLOTS = 4


class Turns:
    """Turns that run until they are ended. The first letter of a turn is its user; each has a session of its own."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.began: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._known: dict[str, Turn] = {}

    async def run(self, turn: Turn, _: object) -> None:
        self.began.append(turn.session.id)
        await self._ends[turn.session.id].wait()
        turn.end.outcome = TurnOutcome("complete", "stop")

    async def cancel(self, turn: Turn, _: object) -> None:
        raise AssertionError(turn)

    async def admit(self, *names: str) -> None:
        for name in names:
            self._ends[name] = asyncio.Event()
            turn = new_turn(session=conversation(name, principal=name[0]), message_id=f"m-{name}", state="queued")
            self._known[name] = turn
            await self.admission.admit(turn, lambda _: lambda _: None)
            await asyncio.sleep(0)

    def turn(self, name: str) -> Turn:
        return self._known[name]

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await self._known[name].ended.wait()
            await asyncio.sleep(0)


@pytest.fixture
async def turns(tmp_path: Path) -> AsyncIterator[Turns]:
    database = Database(tmp_path / "a.db", MIGRATIONS)
    database.open()
    turns = Turns(Admission(database, EventBus(ManualClock()), slots=SLOTS, queue_limit=10))
    turns.admission.start(turns.run, turns.cancel)
    yield turns
    database.close()


async def test_a_user_has_all_slots_while_nobody_else_waits(turns: Turns) -> None:
    await turns.admit("b1")
    await turns.end("b1")
    await turns.admit("a1", "a2", "a3", "a4")
    assert turns.began[1:] == ["a1", "a2", "a3", "a4"], "b is known, but wants nothing"


async def test_whoever_waits_with_the_fewest_turns_is_next_until_all_have_their_share(turns: Turns) -> None:
    await turns.admit("a1", "a2", "a3", "a4", "a5", "a6", "b1", "b2", "b3")
    assert turns.began == ["a1", "a2", "a3", "a4"]
    await turns.end("a1", "a2", "a3", "a4")
    assert turns.began[4:] == ["b1", "b2", "a5", "a6"]
    await turns.end("b1")
    assert turns.began[8:] == ["b3"]


async def test_a_stream_takes_no_more_than_those_of_all_turns_that_run_leave_free(turns: Turns) -> None:
    await turns.admit("a1", "b1")
    a, b = turns.turn("a1"), turns.turn("b1")
    a.stream.size = STREAM_BYTES // 2
    assert not turns.admission.stream_fits(a), "half is free, and the last byte of it is for others"
    a.stream.size -= 1
    assert turns.admission.stream_fits(a)
    b.stream.size = STREAM_BYTES // 8
    assert not turns.admission.stream_fits(a)
    assert turns.admission.stream_fits(b), "the small one goes on"
    await turns.end("a1")
    b.stream.size = STREAM_BYTES // 2 - 1
    assert turns.admission.stream_fits(b), "what has ended leaves its part"


def test_a_text_counts_by_its_characters_and_all_else_by_its_json() -> None:
    def measured(part: dict[str, Any]) -> int:
        turn = new_turn(parts=[part])
        turn.measure()
        return turn.kept_bytes

    ascii_only = measured({"type": "text", "text": "x" * 10_000})
    assert 10_000 < ascii_only < 11_000
    assert measured({"type": "text", "text": "x" * 9_999 + "é"}) > 3 * ascii_only
    kept = {"type": "text", "text": "x" * 10_000, "providerMetadata": {"p": {"signature": "y" * 10_000}}}
    assert measured(kept) > 2 * 10_000
    empty = measured({"type": "text", "text": ""})
    assert empty >= sys.getsizeof({"type": "text", "text": ""}) + sys.getsizeof(""), "many empty parts are not free"
