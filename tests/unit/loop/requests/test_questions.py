"""Questions: a turn that waits for a person holds nothing, loses nothing, and takes exactly one answer."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.errors import Conflict, InvalidRequest
from agent_runtime.loop import HumanAnswer, Turn
from tests.unit.loop.people import (
    ASK,
    TWO,
    Frontend,
    Hands,
    answer,
    assert_fit_for_a_provider,
    calls_of,
    heard,
    shown,
    slow_disk,
    stands,
    stored,
    waits,
)
from tests.unit.loop.support import PATIENCE, FakeModel, World, assignment, call, say, settled, until

QUESTION = ("q", "question", ASK)


def asking(*more: Any, text: str = "") -> FakeModel:
    return FakeModel([call(QUESTION, text=text), *more])


def world(path: Path, model: FakeModel, hands: Hands | None = None, *names: str, **more: Any) -> World:
    return World(path, model, catalog=(hands or Hands()).catalog(*names), **more)


def answered(parts: list[dict[str, Any]], name: str = "q") -> Any:
    part = calls_of(parts)[name]
    return part["state"], part.get("output", {}).get("data", {}).get("answers")


async def test_a_question_waits_without_a_slot_and_the_same_turn_goes_on(tmp_path: Path) -> None:
    model = asking(say("elsewhere"), say("blue it is"), say("the next"), text="I wonder.")
    async with world(tmp_path, model, slots=1) as it:
        turn = await waits(await it.send("paint", session="mine"))
        assert await settled(it, turn) == "waiting"
        assert not it.admission.queues.turns("running")
        assert it.admission.queues.turns("waiting") == [turn]
        queued = await it.send("blue", session="mine", message_id="behind")
        await it.ended(await it.send("hi", session="other"))
        assert queued.state == "queued"
        assert await settled(it, queued) == "queued"
        assert turn.state == "waiting", "a message is never an answer"
        status = await stands(it, turn)
        assert (status["state"], status["message_id"]) == ("waiting_on_user_input", turn.request.message_name)
        (pending,) = status["pending"]
        assert (pending["id"], pending["kind"], pending["tool_call_id"]) == ("q", "question", "q")
        assert pending["questions"] == json.loads(ASK)["questions"]

        assert await answer(it, turn, "q", "blue") is turn
        await it.ended(turn, queued)
        assert answered(turn.end.reply_parts) == ("output-available", [["blue"]])
        assert turn.end.reply_parts == (await stored(it, turn)).parts
        sent = assert_fit_for_a_provider(model.requests[2][1])
        assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
        assert json.loads(sent[-1]["content"]) == {
            "type": "output",
            "data": {"answers": [["blue"]]},
            "metadata": {},
        }
        replies = await it.rows(
            "SELECT id FROM chat_messages WHERE session_id = ? AND role = 'assistant'", turn.session.id
        )
        assert sorted(row[0] for row in replies) == sorted([turn.request.reply_id, queued.request.reply_id])
        assert b'"content":"blue' in model.requests[3][1][-1], "the message behind it had a turn of its own"
        assert (await stands(it, turn))["state"] == "idle"


async def test_the_prompt_of_a_turn_that_waited_is_the_one_that_is_read_back(tmp_path: Path) -> None:
    model = asking(say("blue it is"), text="I wonder.")
    async with world(tmp_path, model) as it:
        turn = await waits(await it.send("paint"))
        await answer(it, turn, "q", "blue")
        await it.ended(turn)
        await it.ended(await it.send("and now?"))
        turn.session.view = None
        await it.ended(await it.send("and then?"))
        requests = [messages for _, messages in model.requests]
        for earlier, later in itertools.pairwise(requests):
            assert later[: len(earlier)] == earlier


async def test_a_wait_survives_a_restart(tmp_path: Path) -> None:
    async with world(tmp_path, asking(text="I wonder.")) as it:
        first = await waits(await it.send("paint", session="mine", message_id="m"))
        queued = await it.send("more", session="mine")
    model = FakeModel([say("blue it is"), say("more")])
    async with world(tmp_path, model, slots=1) as it:
        turn = await it.send("paint", session="mine", message_id="m")
        assert turn is not first
        assert (turn.message_id, turn.request.reply_id) == (first.message_id, first.request.reply_id)
        assert (await waits(turn)).state == "waiting"
        assert (await stands(it, turn))["state"] == "waiting_on_user_input"
        assert not model.requests
        before = Frontend().read(await heard(turn, through_waits=False))
        assert before.ends[0]["finishReason"] == "tool-calls"
        await answer(it, turn, "q", "blue")
        behind = it.admission.queues.turn(queued.message_id)
        assert behind is not None
        await it.ended(turn, behind)
        assert answered(turn.end.reply_parts) == ("output-available", [["blue"]])
        assert shown(turn.end.reply_parts) == Frontend().read(await heard(turn)).shown()
        assert len(model.requests) == 2
        assert_fit_for_a_provider(model.requests[1][1])


async def test_an_answer_is_not_lost_when_the_runtime_stops_before_the_turn_goes_on(tmp_path: Path) -> None:
    """It was acknowledged while another turn had the only slot."""
    gate = asyncio.Event()
    model = asking([gate.wait(), *say("never said")])
    async with world(tmp_path, model, slots=1) as it:
        turn = await waits(await it.send("paint", session="mine"))
        model.asked.clear()
        await it.send("block", session="other")
        await model.asked.wait()
        await answer(it, turn, "q", "blue")
        assert turn.state == "resuming"
        assert (await stands(it, turn))["state"] == "busy"
        with pytest.raises(Conflict) as caught:
            await answer(it, turn, "q", "red")
        assert caught.value.code == "not_waiting"
        reply_id, message_id = turn.request.reply_id, turn.message_id
    model = FakeModel([say("blue it is")])
    async with world(tmp_path, model) as it:
        found = it.admission.queues.turn(message_id)
        assert found is not None
        await it.ended(found)
        assert found.request.reply_id == reply_id
        assert answered(found.end.reply_parts) == ("output-available", [["blue"]])
        assert len(model.requests) == 1
        assert_fit_for_a_provider(model.requests[0][1])


async def test_two_questions_in_one_step_both_want_an_answer(tmp_path: Path) -> None:
    model = FakeModel([call(("q1", "question", ASK), ("q2", "question", TWO)), say("done")])
    async with world(tmp_path, model) as it:
        turn = await waits(await it.send("paint"))
        assert list(turn.human_wait.requests) == ["q1", "q2"]
        given = HumanAnswer("q2", answers=[["blue"], ["L", "XL"]])
        await it.answers.submit("operator", turn.session.id, given)
        assert turn.state == "waiting"
        assert [wait["id"] for wait in (await stands(it, turn))["pending"]] == ["q1"]
        message_id = turn.message_id
    async with world(tmp_path, model) as it:  # and the first answer is remembered
        found = it.admission.queues.turn(message_id)
        assert found is not None
        assert list(found.human_wait.requests) == ["q1"]
        await answer(it, found, "q1", "red")
        await it.ended(found)
        assert answered(found.end.reply_parts, "q1") == ("output-available", [["red"]])
        assert answered(found.end.reply_parts, "q2") == ("output-available", [["blue"], ["L", "XL"]])
        assert len(model.requests) == 2
        sent = assert_fit_for_a_provider(model.requests[1][1])
        assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ["q1", "q2"]


async def test_an_answer_may_come_before_the_steps_other_calls_are_done(tmp_path: Path) -> None:
    hands = Hands(gates={"slow": asyncio.Event()})
    model = FakeModel([call(QUESTION, ("c", "slow", "{}")), say("done")])
    async with world(tmp_path, model, hands, "slow") as it:
        turn = await it.send("paint")
        await hands.entered.wait()
        giving = asyncio.create_task(answer(it, turn, "q", "blue"))
        await asyncio.sleep(0)
        assert not giving.done()
        hands.gates["slow"].set()
        assert await giving is turn
        await it.ended(turn)
        assert answered(turn.end.reply_parts) == ("output-available", [["blue"]])
        assert hands.ran == ["c"]
        assert calls_of(turn.end.reply_parts)["c"]["output"]["data"] == {"did": "slow"}
        assert_fit_for_a_provider(model.requests[1][1])


async def test_of_many_answers_at_once_exactly_one_counts(tmp_path: Path) -> None:
    model = asking(say("done"))
    async with world(tmp_path, model) as it:
        turn = await waits(await it.send("paint"))
        colours = [f"colour {number}" for number in range(8)]
        given = await asyncio.gather(*(answer(it, turn, "q", one) for one in colours), return_exceptions=True)
        won = [colour for colour, result in zip(colours, given, strict=True) if result is turn]
        lost = [result for result in given if isinstance(result, Conflict)]
        assert (len(won), len(lost)) == (1, 7)
        assert {error.code for error in lost} == {"not_waiting"}
        await it.ended(turn)
        with pytest.raises(Conflict):
            await answer(it, turn, "q", "too late")
        assert answered((await stored(it, turn)).parts) == ("output-available", [won])
        assert won[0].encode() in model.requests[1][1][-1]
        assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (HumanAnswer("q", answers=[["blue"], ["red"]]), "answers"),
        (HumanAnswer("q", answers=[]), "answers"),
        (HumanAnswer("q", decision="once"), "answers"),
    ],
)
async def test_an_answer_that_does_not_fit_leaves_the_question_open(
    tmp_path: Path, wrong: HumanAnswer, field: str
) -> None:
    async with world(tmp_path, asking(say("done"))) as it:
        turn = await waits(await it.send("paint"))
        before = (await stored(it, turn)).parts
        with pytest.raises(InvalidRequest) as caught:
            await it.answers.submit("operator", turn.session.id, wrong)
        assert [fault[0] for fault in caught.value.faults] == [field]
        with pytest.raises(Conflict):
            await answer(it, turn, "another", "blue")
        assert (await stored(it, turn)).parts == before
        assert turn.state == "waiting"
        assert (await stands(it, turn))["pending"][0]["id"] == "q"
        await answer(it, turn, "q", "blue")
        await it.ended(turn)
        assert answered(turn.end.reply_parts) == ("output-available", [["blue"]])


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_turn_that_waits_can_be_aborted(tmp_path: Path, *, restarted: bool) -> None:
    async with world(tmp_path, asking(say("next"), text="I wonder."), slots=1) as it:
        turn = await waits(await it.send("paint", message_id="m"))
        if not restarted:
            await _abort(it, turn)
    if restarted:
        async with world(tmp_path, FakeModel([say("next")]), slots=1) as it:
            await _abort(it, await it.send("paint", message_id="m"))


async def _abort(it: World, turn: Turn) -> None:
    watching = asyncio.create_task(heard(turn))
    async with asyncio.timeout(PATIENCE):
        await it.admission.stop(turn)
    assert turn.end.outcome is not None
    assert turn.end.outcome.status == "cancelled"
    assert await settled(it, turn) == "ended"
    assert it.admission.slots.free == 1
    assert calls_of(turn.end.reply_parts)["q"]["state"] == "output-error"
    assert turn.end.reply_parts == (await stored(it, turn)).parts
    seen = Frontend().read(await watching)
    assert seen.ends[0]["type"] == "abort"
    assert seen.shown() == shown(turn.end.reply_parts)
    with pytest.raises(Conflict):
        await answer(it, turn, "q", "blue")
    await it.ended(await it.send("and now?"))
    sent = assert_fit_for_a_provider(it.model.requests[-1][1])
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "user"]


@pytest.mark.parametrize("late", [False, True])
async def test_an_abort_that_meets_an_answer_on_its_way_to_the_disk_leaves_one_truth(
    tmp_path: Path, *, late: bool
) -> None:
    """What was heard is what is on disk, and an answer that was acknowledged is kept."""
    async with world(tmp_path, asking(say("next"))) as it:
        turn = await waits(await it.send("paint"))
        watching = asyncio.create_task(heard(turn))
        with slow_disk(it) as disk:
            giving = asyncio.create_task(answer(it, turn, "q", "blue"))
            await until(lambda: not turn.human_wait.requests)
            if late:
                disk.set()
            stopping = asyncio.create_task(it.admission.stop(turn))
            for _ in range(5):  # whoever reads the record, and needs no more than that, has done so
                await it.database.read(lambda _: None)
        async with asyncio.timeout(PATIENCE):
            await stopping
        given = (await asyncio.gather(giving, return_exceptions=True))[0]
        assert given is turn or isinstance(given, Conflict)
        seen = Frontend().read(await watching)
        recorded = (await stored(it, turn)).parts
        assert seen.shown() == shown(recorded)
        assert answered(recorded) == (("output-available", [["blue"]]) if given is turn else ("output-error", None))
        await it.ended(await it.send("and now?"))
        assert_fit_for_a_provider(it.model.requests[-1][1])


async def test_whoever_gives_an_answer_and_leaves_has_given_it(tmp_path: Path) -> None:
    async with world(tmp_path, asking(say("done"))) as it:
        turn = await waits(await it.send("paint"))
        giving = asyncio.create_task(answer(it, turn, "q", "blue"))
        await until(lambda: not turn.human_wait.requests)
        giving.cancel()
        await asyncio.wait([giving])
        await it.ended(turn)
        assert answered(turn.end.reply_parts) == ("output-available", [["blue"]])


async def test_a_second_answer_is_refused_while_the_turn_works(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with world(tmp_path, asking([gate.wait(), *say("done")])) as it:
        turn = await waits(await it.send("paint"))
        it.model.asked.clear()
        await answer(it, turn, "q", "blue")
        await it.model.asked.wait()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(Conflict):
                await answer(it, turn, "q", "red")
        gate.set()
        await it.ended(turn)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_wait_has_an_end(tmp_path: Path, *, restarted: bool) -> None:
    async with world(tmp_path, asking(say("next")), answer_seconds=600 if restarted else 0.01) as it:
        turn = await it.send("paint", message_id="m")
        await waits(turn) if restarted else await it.ended(turn)
        message_id = turn.message_id
        clock = it.clock
    if restarted:
        clock.advance(601)
        async with world(tmp_path, FakeModel(), answer_seconds=600, clock=clock) as it:
            found = it.admission.queues.turn(message_id)
            assert found is not None
            await it.ended(found)
            turn = found
            assert not it.model.requests
    assert turn.end.outcome is not None
    assert (turn.end.outcome.status, turn.end.outcome.error_code) == ("timeout", "deadline_exceeded")
    assert calls_of(turn.end.reply_parts)["q"]["state"] == "output-error"


async def test_a_task_has_nobody_to_ask(tmp_path: Path) -> None:
    model = asking(say("I decided myself"))
    async with world(tmp_path, model) as it:
        turn = (await it.tasks.assign(assignment(), "operator")).turn
        assert turn is not None
        await it.ended(turn)
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        assert calls_of(turn.end.reply_parts)["q"]["state"] == "output-error"
        assert b"no person is there to answer" in model.requests[1][1][-1]


async def test_what_a_frontend_sees_of_a_wait_and_of_its_end(tmp_path: Path) -> None:
    """The stream ends at the wait, that of the answer goes on with the same message and says nothing twice."""
    model = asking(call(("c", "echo", "{}")), say("done"), text="I wonder.")
    async with world(tmp_path, model, None, "echo") as it:
        turn = await waits(await it.send("paint"))
        frontend = Frontend().read(await heard(turn, through_waits=False))
        assert frontend.kinds[-2:] == ["finish-step", "finish"]
        assert frontend.ends[0]["finishReason"] == "tool-calls"
        part = calls_of(frontend.parts)["q"]
        assert part["state"] == "input-available"
        part |= {"state": "output-available", "output": {"answers": [["blue"]]}}
        before = len(frontend.parts)

        given = [HumanAnswer("q", answers=[["blue"]])]
        assert await it.answers.submit_all("operator", None, given, turn.request.reply_id) is turn
        await it.ended(turn)
        start = Frontend().read(await heard(turn))
        mine = await _continued(turn)
        frontend.read(mine)
        assert frontend.id == turn.request.reply_id
        assert b"I wonder." not in mine
        assert frontend.parts[before]["type"] == "step-start"
        assert frontend.shown() == start.shown() == shown(turn.end.reply_parts)


async def _continued(turn: Turn) -> bytes:
    from agent_common.protocol import chunks as c

    fresh = c.Start(messageId=turn.request.reply_id, messageMetadata=turn.public_ids())
    return await heard(turn, through_waits=False, since=turn.stream.resume_position, first_chunk=fresh)


async def test_a_turn_that_waits_counts_with_its_reply(tmp_path: Path) -> None:
    async with world(tmp_path, asking(text="x" * 1_000_000)) as it:
        turn = await waits(await it.send("go"))
        kept = turn.kept_bytes
        assert kept > 2_000_000, "the reply and the stream"
    async with world(tmp_path, asking()) as it:
        [again] = it.admission.queues.all()
        assert again.kept_bytes > kept / 2
