"""The only scheduler: nothing lost, nothing twice, nothing stuck."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.errors import Busy, Conflict, ModelError, RequestError
from agent_runtime.loop import StreamInterrupted, Turn
from agent_runtime.loop.scheduling.admission import KEPT_BYTES
from tests.unit.loop.support import PATIENCE, FakeModel, World, assignment, incoming, say, settled, until


def waiting(event: asyncio.Event) -> list[Any]:
    """A model call that answers once it may."""
    return [event.wait(), *say("at last")]


async def test_a_reset_stops_the_running_turn_and_what_waits_behind_it(tmp_path: Path) -> None:
    model = FakeModel([waiting(asyncio.Event())])
    async with World(tmp_path, model, slots=1) as world:
        running, queued = await world.send("one"), await world.send("two")
        async with asyncio.timeout(PATIENCE / 2):
            await model.asked.wait()
            fresh, old = await world.chats.reset("operator", None)
        assert running.ended.is_set()
        assert queued.ended.is_set()
        assert old == running.session.id != fresh
        assert [await settled(world, turn) for turn in (running, queued)] == ["ended", "ended"]
        await world.ended(await world.send("three"))  # its slot was given back
        assert len(model.requests) == 2


async def test_a_turn_that_is_stopped_gives_its_slot_back(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([waiting(asyncio.Event())]), slots=1) as world:
        turn = await world.send("one")
        async with asyncio.timeout(PATIENCE / 2):
            await world.admission.stop(turn)
        assert turn.end.outcome is not None
        assert turn.end.outcome.error_code == "cancelled"
        assert await settled(world, turn) == "ended"
        after = await world.send("two")
        await world.ended(after)
        assert after.end.outcome is not None
        assert after.end.outcome.status == "complete"


async def test_a_stop_during_admission_waits_for_it(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([say("hi"), waiting(asyncio.Event())]), slots=1) as world:
        first = await world.send("one")
        await world.ended(first)
        sending = asyncio.create_task(world.send("two"))
        await until(lambda: world.admission.queues.head_turn(first.session) is not None)
        turn = world.admission.queues.head_turn(first.session)
        assert turn is not None
        assert not turn.admission.done
        async with asyncio.timeout(PATIENCE / 2):
            await world.admission.stop(turn)
        assert await sending is turn
        assert turn.end.outcome is not None
        assert turn.end.outcome.error_code == "cancelled"


async def test_a_stop_while_the_history_is_read_settles_the_turn(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        first = await world.send("one")
        await world.ended(first)
        first.session.view = None
        turn = await world.send("two")
        await until(lambda: turn.start.monotonic is not None)
        async with asyncio.timeout(PATIENCE / 2):
            await world.admission.stop(turn)
        assert turn.end.outcome is not None
        assert await settled(world, turn) == "ended"


async def test_a_caller_who_gives_up_loses_nothing(tmp_path: Path) -> None:
    """His message is on its way to the disk: it is admitted, and its turn runs."""
    async with World(tmp_path) as world:
        sending = asyncio.create_task(world.send("one", message_id="mine"))
        await until(lambda: bool(world.admission.queues.turns("running")))
        (turn,) = world.admission.queues.turns("running")
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await world.ended(turn)
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        assert await settled(world, turn) == "ended"


async def test_two_interrupts_at_once_stop_the_same_turn_once(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([waiting(asyncio.Event())]), slots=1) as world:
        head = await world.send("one")
        both = await asyncio.gather(world.send("two", on_busy="interrupt"), world.send("three", on_busy="interrupt"))
        assert head.ended.is_set()
        await world.ended(*both)
        assert [turn.end.outcome.status for turn in both if turn.end.outcome] == ["complete", "complete"]


async def test_the_queue_is_bounded(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with World(tmp_path, FakeModel([waiting(gate)]), slots=1, queue=1) as world:
        turns = [await world.send("one"), await world.send("two")]
        with pytest.raises(Busy) as caught:
            await world.send("three", session="another")
        assert caught.value.headers["Retry-After"]
        assert world.admission.queues.count_ahead(turns[1]) == 1
        assert world.admission.queues.count_ahead(turns[0]) == 0
        gate.set()
        await world.ended(*turns)
        await world.ended(await world.send("three"))


async def test_what_waits_is_bounded_by_the_memory_that_it_takes(tmp_path: Path) -> None:
    """By each user, so that others go on; and what the next process finds is no more."""
    gate = asyncio.Event()
    dense: list[dict[str, Any]] = [{"type": "data-x", "data": [{"": 0}] * 95_000}]
    async with World(tmp_path, FakeModel([waiting(gate)]), slots=1) as world:
        await world.send("one")
        for _ in range(3):
            await world.send(parts=dense)
        with pytest.raises(Busy, match="hold too much") as caught:
            await world.send(parts=dense)
        assert caught.value.headers["Retry-After"]
        kept = sum(turn.kept_bytes for turn in world.admission.queues.all())
        assert KEPT_BYTES / 4 < kept < KEPT_BYTES / 2
        with pytest.raises(Busy):
            await world.send(parts=dense, session="another")
        await world.send(parts=dense, principal="bob")
        await world.send("1," * 1_000_000, principal="eve")
    async with World(tmp_path, FakeModel([waiting(gate)] * 2), slots=1) as world:
        with pytest.raises(Busy):
            await world.send(parts=dense, session="another")


async def test_a_refused_admission_leaves_no_trace(tmp_path: Path) -> None:
    async with World(tmp_path, slots=1) as world:
        first = await world.send("one", message_id="a")
        with pytest.raises(Conflict) as caught:
            await world.send("other content", message_id="a")
        assert caught.value.code == "message_conflict"

        def refuse(_: Turn) -> Any:
            def unit(connection: sqlite3.Connection) -> None:
                connection.execute("INSERT INTO turns (message_id) VALUES ('x')")

            return unit

        await world.ended(first)
        extra = await world.send("two")
        await world.ended(extra)
        extra.state, extra.admission.done = "queued", False
        extra.ended.clear()
        with pytest.raises(sqlite3.IntegrityError):
            await world.admission.admit(extra, refuse)
        assert not world.admission.queues.turns("running")
        await world.ended(await world.send("three"))


async def test_refused_admissions_are_forgotten(tmp_path: Path) -> None:
    """An orchestrator that knocks at a full queue must not fill the memory."""
    gate = asyncio.Event()
    async with World(tmp_path, FakeModel([waiting(gate)]), slots=1, queue=0) as world:
        turn = await world.send("one")
        for number in range(20):
            with pytest.raises(Busy):
                await world.tasks.assign(assignment(task_id=f"t{number}"), "operator")
            with pytest.raises(Busy):
                await world.send("hello", session=f"s{number}")
        assert len(world.conversations._known) == 1
        gate.set()
        await world.ended(turn)


async def test_a_queue_rests_after_a_failure_until_the_next_message(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with World(tmp_path, FakeModel([[gate.wait(), ModelError("down")]]), slots=2) as world:
        first, second = await world.send("one"), await world.send("two")
        gate.set()
        await world.ended(first)
        assert first.end.outcome is not None
        assert first.end.outcome.status == "failed"
        await world.ended(await world.send("elsewhere", session="other"))
        assert second.state == "queued"
        third = await world.send("three")
        await world.ended(second, third)
        order = [messages[-1] for _, messages in world.model.requests]
        assert [b"one" in order[0], b"elsewhere" in order[1], b"two" in order[2], b"three" in order[3]] == [True] * 4
        assert not world.admission.queues.paused


async def test_a_queued_turn_is_cancelled_in_place(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with World(tmp_path, FakeModel([waiting(gate)])) as world:
        first, second = await world.send("one"), await world.send("two", message_id="b")
        await world.admission.stop(second)
        await world.admission.stop(second)
        assert b'"type":"abort"' in b"".join([event async for event in second.stream.follow()])
        gate.set()
        await world.ended(first)
        known = await world.chats.send(incoming("two", message_id="b"))
        assert not isinstance(known, Turn)
        assert known.outcome["error_code"] == "cancelled"
        rows = await world.rows("SELECT metadata_json FROM chat_messages WHERE id = ?", second.message_id)
        assert "queue_canceled_at" in rows[0][0]
        assert '"queued_at"' not in rows[0][0]


async def test_an_interrupt_leaves_a_message_that_only_waits(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([waiting(asyncio.Event()), say("yes"), say("and yes")]), slots=1) as world:
        others = await world.send("long work", session="other")
        first, second = await world.send("this"), await world.send("also this", on_busy="interrupt")
        assert first.state == "queued"
        await world.admission.stop(others)
        await world.ended(first, second)
        assert [one.end.outcome.status for one in (first, second) if one.end.outcome] == ["complete", "complete"]
        said = world.model.requests[-1][1]
        assert [b'"this' in said[-3], b"yes" in said[-2], b"also this" in said[-1]] == [True, True, True]


async def test_a_drain_keeps_what_is_unfinished_for_the_next_life(tmp_path: Path) -> None:
    model = FakeModel([waiting(asyncio.Event())])
    async with World(tmp_path, model, slots=1) as world:
        running, queued = await world.send("one"), await world.send("two")
        await model.asked.wait()
        await world.admission.drain(0.01)
        assert running.ended.is_set()
        assert running.end.outcome is not None
        assert running.end.outcome.error_code == "interrupted"
        assert await settled(world, running) == "ended"
        with pytest.raises(RequestError) as caught:
            await world.send("three")
        assert caught.value.status == 503
        with pytest.raises(StreamInterrupted):
            assert [event async for event in queued.stream.follow()]
    async with World(tmp_path, FakeModel()) as world:
        again = await world.chats.send(incoming("x", session=queued.session.id))
        assert isinstance(again, Turn)
        await world.ended(again)
        states = await world.rows("SELECT message_id, state FROM turns")
        assert {row["state"] for row in states} == {"ended"}
        said = world.model.requests[0][1]
        assert b"two" in said[-1]
        assert b"one" in said[-2]
        assert len(world.model.requests) == 2


async def test_a_drain_lets_a_turn_finish_in_its_grace(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with World(tmp_path, FakeModel([waiting(gate)])) as world:
        turn = await world.send("one")
        draining = asyncio.create_task(world.admission.drain(PATIENCE))
        gate.set()
        await draining
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"


async def test_a_reject_is_answered_clearly(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with World(tmp_path, FakeModel([waiting(gate)])) as world:
        turn = await world.send("one")
        with pytest.raises(Conflict) as caught:
            await world.send("two", on_busy="reject")
        assert caught.value.code == "session_busy"
        gate.set()
        await world.ended(turn)


async def test_a_free_slot_goes_to_the_principal_with_the_fewest_turns(tmp_path: Path) -> None:
    first = asyncio.Event()
    model = FakeModel([waiting(first)])
    async with World(tmp_path, model, slots=1) as world:
        turns = [
            await world.send(f"{user} {number}", principal=user, session=f"{user}{number}")
            for user, number in (("bob", 0), ("bob", 1), ("bob", 2), ("alice", 0))
        ]
        first.set()
        await world.ended(*turns)
        order = sorted(turns, key=lambda turn: turn.start.monotonic or 0)
    assert [turn.session.principal for turn in order] == ["bob", "bob", "bob", "alice"]
