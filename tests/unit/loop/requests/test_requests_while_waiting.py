"""A turn that waits, and all else that callers may do with its session meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import ForkRequest, without_notes
from agent_runtime.errors import Conflict, NotReady
from agent_runtime.loop import HumanAnswer, Turn
from agent_runtime.sessions import replay
from tests.unit.loop.people import (
    ASK,
    Frontend,
    Hands,
    answer,
    assert_fit_for_a_provider,
    calls_of,
    decide,
    heard,
    stands,
    stored,
    waits,
)
from tests.unit.loop.support import PATIENCE, FakeModel, World, assignment, call, say, settled, until


def asking(path: Path, *more: Any, **how: Any) -> World:
    return World(path, FakeModel([call(("q", "question", ASK)), *more]), catalog=Hands().catalog("echo"), **how)


async def test_an_interrupt_takes_the_place_of_a_turn_that_waits(tmp_path: Path) -> None:
    async with asking(tmp_path, say("new")) as it:
        turn = await waits(await it.send("paint"))
        behind = await it.send("behind")
        new = await it.send("never mind", on_busy="interrupt")
        await it.ended(turn, behind, new)
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "cancelled"
        assert [b"behind" in it.model.requests[1][1][-1], b"never mind" in it.model.requests[2][1][-1]] == [True, True]
        assert_fit_for_a_provider(it.model.requests[2][1])


@pytest.mark.parametrize("again", [{"text": "paint", "regenerate": True}, {"text": "draw", "is_edit": True}], ids=str)
async def test_an_interrupt_takes_the_message_back_with_all_that_waits_behind_it(
    tmp_path: Path, again: dict[str, Any]
) -> None:
    async with asking(tmp_path, say("new"), say("after")) as it:
        turn = await waits(await it.send("paint", message_id="m"))
        behind = await it.send("behind")
        new = await it.send(**again, message_id="m", on_busy="interrupt")
        await it.ended(turn, behind, new, await it.send("and now?"))
        assert [one.end.outcome.status for one in (turn, behind, new) if one.end.outcome] == [
            *("cancelled", "cancelled", "complete"),
        ]
        said = [json.loads(message)["content"] for message in it.model.requests[-1][1][1:]]
        assert [without_notes(text) for text in said] == [again["text"], "new", "and now?"]


async def test_an_interrupt_takes_nothing_back_that_waits_before_the_message(tmp_path: Path) -> None:
    async with asking(tmp_path, say("before"), say("this")) as it:
        turn = await waits(await it.send("paint"))
        before, this = await it.send("before"), await it.send("this", message_id="m")
        with pytest.raises(Conflict) as caught:
            await it.send("that", message_id="m", is_edit=True, on_busy="interrupt")
        assert caught.value.code == "session_busy"
        assert [turn.state, before.state, this.state] == ["waiting", "queued", "queued"]


async def test_a_session_that_waits_is_busy(tmp_path: Path) -> None:
    async with asking(tmp_path) as it:
        turn = await waits(await it.send("paint", message_id="m"))
        sessions, session = it.sessions(), turn.session.id
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
        assert not it.admission.queues.turns("waiting")


async def test_a_session_is_not_ended_while_the_server_shuts_down(tmp_path: Path) -> None:
    """What waits in it is kept for the next process."""
    async with asking(tmp_path) as it:
        turn = await waits(await it.send("paint"))
        await it.admission.drain(0.01)

        def never_ends(*_: object) -> None:
            raise AssertionError("the event loop stands still")

        before = signal.signal(signal.SIGALRM, never_ends)  # no timeout of the loop's own would fire then
        signal.alarm(round(PATIENCE))
        try:
            with pytest.raises(NotReady, match="shutting down"):
                await it.admission.stop_all(turn.session)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
    async with World(tmp_path) as it:
        assert [one.state for one in it.admission.queues.all()] == ["waiting"]


def _again(text: str, message_id: str) -> Any:
    from tests.unit.loop.support import incoming

    return incoming(text, message_id=message_id, regenerate=True)


async def test_many_turns_may_wait_without_filling_the_queue(tmp_path: Path) -> None:
    model = FakeModel([call(("q", "question", ASK)) for _ in range(6)])
    async with World(tmp_path, model, catalog=Hands().catalog(), slots=1, queue=1) as it:
        turns = [await waits(await it.send("paint", session=f"s{number}")) for number in range(6)]
        assert it.admission.slots.free == 1
        for turn in turns:
            await answer(it, turn, "q", "blue")
        await it.ended(*turns)
        assert it.admission.slots.free == 1
        assert {turn.end.outcome.status for turn in turns if turn.end.outcome} == {"complete"}


async def test_each_turn_that_waits_is_told_of_once(tmp_path: Path) -> None:
    async with asking(tmp_path, call(("q2", "question", ASK)), say("done")) as it:
        watching = it.events.watch("operator")
        await anext(watching)
        turn = await waits(await it.send("paint", message_id="m"))
        await answer(it, turn, "q", "blue")
        await until(lambda: "q2" in turn.human_wait.requests)
        await answer(it, turn, "q2", "blue")
        await it.ended(turn)
        it.events.close()
        said = b"".join([piece async for piece in watching]).decode().split("\n")
    told = [json.loads(line[6:]) for line in said if line.startswith("data: ")]
    assert [one["type"] for one in told] == [
        *("turn-started", "approval-requested", "approval-resolved"),
        *("approval-requested", "approval-resolved", "turn-finished"),
    ]
    assert [one["id"] for one in told[1:5]] == ["q", "q", "q2", "q2"]
    assert {one["message_id"] for one in told} == {"m"}


async def test_a_message_behind_a_wait_that_nobody_ended_is_next(tmp_path: Path) -> None:
    async with asking(tmp_path, say("behind"), answer_seconds=0.05) as it:
        turn = await waits(await it.send("paint"))
        behind = await it.send("behind")
        await it.ended(turn)
        assert (await stands(it, turn))["state"] in ("busy", "idle", "error")
        if behind.state == "queued" and turn.session.id in it.admission.queues.paused:
            await it.ended(await it.send("wake up"))
        await it.ended(behind)
        assert_fit_for_a_provider(it.model.requests[-1][1])


async def test_answers_of_a_frontend_that_come_early_are_taken_or_refused_but_never_dropped(tmp_path: Path) -> None:
    """The turn has waited before, and asks again while another call of its step still runs."""
    hands = Hands(gates={"slow": asyncio.Event()})
    model = FakeModel([call(("q", "question", ASK)), call(("q2", "question", ASK), ("c", "slow", "{}")), say("done")])
    async with World(tmp_path, model, catalog=hands.catalog("slow")) as it:
        turn = await waits(await it.send("paint"))
        await answer(it, turn, "q", "blue")
        await hands.entered.wait()
        giving = asyncio.create_task(
            it.answers.submit_all("operator", None, [HumanAnswer("q2", answers=[["red"]])], turn.request.reply_id)
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        hands.gates["slow"].set()
        taken: Turn | None = None
        try:
            taken = await giving
        except Conflict:
            taken = None
        async with asyncio.timeout(PATIENCE):
            await turn.paused_or_ended.wait()
        if taken is None:
            assert list(turn.human_wait.requests) == ["q2"]
            await answer(it, turn, "q2", "red")
        assert "q2" not in turn.human_wait.requests, "the answer was accepted"
        await it.ended(turn)
        assert calls_of(turn.end.reply_parts)["q2"]["output"]["data"] == {"answers": [["red"]]}


async def test_a_replay_builds_the_parts_that_the_live_stream_built(tmp_path: Path) -> None:
    hands = Hands()
    model = FakeModel([call(("c", "deploy", "[1]"), ("d", "deploy", "{}"), ("e", "nothing", "{}")), say("done")])
    async with World(tmp_path, model, catalog=hands.catalog("deploy", ask=["deploy"])) as it:
        turn = await waits(await it.send("go"))
        await decide(it, turn, "d", "once")
        await it.ended(turn)
        live = Frontend().read(await heard(turn))
        reply = await stored(it, turn)
        again = Frontend().read(b"".join(chunk.to_sse() for chunk in replay(reply)) + b"data: [DONE]\n\n")
        assert _told(again) == _told(live)


def _told(seen: Frontend) -> list[dict[str, Any]]:
    return [{key: value for key, value in part.items() if key not in ("type", "state")} for part in seen.parts]


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
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        assert hands.ran.count("c") == 1
