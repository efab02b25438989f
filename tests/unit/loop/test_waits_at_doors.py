"""A turn that waits, and all else that callers may do with its session meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.errors import Conflict
from agent_runtime.loop import Sessions
from agent_runtime.protocol import ForkRequest
from tests.unit.loop.people import (
    ASK,
    Hands,
    answer,
    assert_fit_for_a_provider,
    no_card,
    stands,
    waits,
)
from tests.unit.loop.support import PATIENCE, FakeModel, World, assignment, call, say, settled


def asking(path: Path, *more: Any, **how: Any) -> World:
    return World(path, FakeModel([call(("q", "question", ASK)), *more]), catalog=Hands().catalog("echo"), **how)


async def test_an_interrupt_takes_the_place_of_a_turn_that_waits(tmp_path: Path) -> None:
    async with asking(tmp_path, say("new")) as it:
        turn = await waits(await it.send("paint"))
        behind = await it.send("behind")
        new = await it.send("never mind", on_busy="interrupt")
        await it.ended(turn, behind, new)
        assert turn.outcome is not None
        assert turn.outcome.status == "cancelled"
        assert [b"behind" in it.model.requests[1][1][-1], b"never mind" in it.model.requests[2][1][-1]] == [True, True]
        assert_fit_for_a_provider(it.model.requests[2][1])


async def test_a_session_that_waits_is_busy(tmp_path: Path) -> None:
    async with asking(tmp_path) as it:
        turn = await waits(await it.send("paint", message_id="m"))
        sessions, session = Sessions(it.hallway, it.tools, no_card), turn.conversation.id
        for refused in (
            it.send("now", on_busy="reject"),
            sessions.rewind("operator", session, "m"),
            sessions.fork("operator", session, ForkRequest()),
            it.chats.send(_again("paint", "m")),
        ):
            with pytest.raises(Conflict) as caught:
                await refused
            assert caught.value.code == "session_busy"
        assert turn.state == "waiting"
        await sessions.archive("operator", session)
        assert turn.ended.is_set()
        assert await settled(it, turn) == "ended"
        assert not it.admission.turns("waiting")


def _again(text: str, message_id: str) -> Any:
    from tests.unit.loop.support import incoming

    return incoming(text, message_id=message_id, again=True)


async def test_many_turns_may_wait_without_filling_the_queue(tmp_path: Path) -> None:
    model = FakeModel([call(("q", "question", ASK)) for _ in range(6)])
    async with World(tmp_path, model, catalog=Hands().catalog(), slots=1, queue=1) as it:
        turns = [await waits(await it.send("paint", session=f"s{number}")) for number in range(6)]
        assert it.admission._free == 1
        for turn in turns:
            await answer(it, turn, "q", "blue")
        await it.ended(*turns)
        assert it.admission._free == 1
        assert {turn.outcome.status for turn in turns if turn.outcome} == {"complete"}


async def test_a_message_behind_a_wait_that_nobody_ended_is_next(tmp_path: Path) -> None:
    async with asking(tmp_path, say("behind"), answer_seconds=0.05) as it:
        turn = await waits(await it.send("paint"))
        behind = await it.send("behind")
        await it.ended(turn)
        assert (await stands(it, turn))["state"] in ("busy", "idle", "error")
        if behind.state == "queued" and turn.conversation.id in it.admission._resting:
            await it.ended(await it.send("wake up"))
        await it.ended(behind)
        assert_fit_for_a_provider(it.model.requests[-1][1])


async def test_a_task_that_a_drain_meets_in_its_wait_for_nobody_goes_on(tmp_path: Path) -> None:
    """A chat that comes to a question in the grace of a drain is put away, and waits in the next life."""
    hands = Hands(gates={"slow": asyncio.Event()})
    model = FakeModel([call(("q", "question", ASK), ("c", "slow", "{}"))])
    async with World(tmp_path, model, catalog=hands.catalog("slow")) as it:
        turn = await it.send("paint", message_id="m")
        await it.tasks.assign(assignment(), "operator")
        await hands.entered.wait()
        draining = asyncio.create_task(it.admission.drain(PATIENCE))
        await asyncio.sleep(0)
        hands.gates["slow"].set()
        await draining
        assert await settled(it, turn) == "waiting"
    async with World(tmp_path, FakeModel([say("done")]), catalog=hands.catalog("slow")) as it:
        turn = await waits(await it.send("paint", message_id="m"))
        await answer(it, turn, "q", "blue")
        await it.ended(turn)
        assert turn.outcome is not None
        assert turn.outcome.status == "complete"
        assert hands.ran.count("c") == 1
