"""Messages that steer: in between two steps, or queued, never both and never lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.context import View
from agent_runtime.errors import Conflict, InvalidRequest, ModelError
from agent_runtime.loop import CompletedTurn, Turn
from agent_runtime.sessions import history
from tests.unit.loop.people import (
    ASK,
    Frontend,
    Hands,
    answer,
    assert_fit_for_a_provider,
    calls_of,
    heard,
    shown,
    slow_disk,
    stored,
    waits,
)
from tests.unit.loop.support import (
    OPEN_AGENT,
    PATIENCE,
    PROMPT,
    FakeModel,
    World,
    assignment,
    call,
    incoming,
    say,
    settled,
    until,
)

SLOW = ("c", "slow", "{}")


def busy(path: Path, *plays: Any, **more: Any) -> tuple[World, Hands]:
    """A world whose first model call wants a tool that stands still until it may go on."""
    hands = Hands(gates={"slow": asyncio.Event()})
    return World(path, FakeModel([call(SLOW, text="I begin."), *plays]), catalog=hands.catalog("slow"), **more), hands


async def read_back(it: World, turn: Turn) -> list[bytes]:
    """What the model would be sent, made from the record alone."""
    session = turn.session.id
    past = await it.database.read(lambda connection: list(history.messages(connection, session)))
    return list(View.from_history(PROMPT, past).messages)


async def test_a_message_joins_between_two_steps(tmp_path: Path) -> None:
    world, hands = busy(tmp_path, say("as you wish"), say("next"))
    async with world as it:
        turn = await it.send("go")
        await hands.entered.wait()
        steer = await it.send("faster", on_busy="steer", message_id="s")
        behind = await it.send("later", message_id="l")
        assert steer.state == behind.state == "queued"
        hands.gates["slow"].set()
        await it.ended(turn, steer, behind)
        assert steer.end.joined_turn is turn
        sent = assert_fit_for_a_provider(it.model.requests[1][1])
        assert [one["role"] for one in sent] == ["system", "user", "assistant", "tool", "user"]
        assert sent[-1]["content"] == "faster"
        (part,) = [part for part in turn.end.reply_parts if part["type"] == "data-steer"]
        assert part["data"] == {"message_id": "s", "parts": [{"type": "text", "text": "faster"}]}
        assert turn.end.reply_parts == (await stored(it, turn)).parts
        assert Frontend().read(await heard(turn)).shown() == shown(turn.end.reply_parts)
        rows = await it.rows("SELECT metadata_json FROM chat_messages WHERE id = ?", steer.message_id)
        metadata = json.loads(rows[0][0])
        assert "steered_at" in metadata
        assert "queued_at" not in metadata
        assert await settled(it, steer) == "ended"
        assert len(it.model.requests) == 3
        await it.ended(await it.send("and now?"))
        grown = it.model.requests[-1][1]
        assert grown[: len(sent)] == it.model.requests[1][1]
        assert (await read_back(it, turn))[: len(grown)] == grown
        assert sum(b'"faster"' in message for message in grown) == 1


async def test_a_message_that_comes_too_late_has_a_turn_of_its_own(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with World(tmp_path, FakeModel([[gate.wait(), *say("the end")], say("its own")])) as it:
        turn = await it.send("go")
        await it.model.asked.wait()
        steer = await it.send("faster", on_busy="steer")
        gate.set()
        await it.ended(turn, steer)
        assert steer.end.joined_turn is None
        assert steer.end.outcome is not None
        assert steer.end.reply_parts[-1]["text"] == "its own"
        assert not [part for part in turn.end.reply_parts if part["type"] == "data-steer"]
        rows = await it.rows("SELECT metadata_json FROM chat_messages WHERE id = ?", steer.message_id)
        assert "steered_at" not in rows[0][0]


async def test_a_message_that_steers_waits_when_the_turn_fails(tmp_path: Path) -> None:
    world, hands = busy(tmp_path, [ModelError("down")], say("again"))
    async with world as it:
        turn = await it.send("go")
        await hands.entered.wait()
        first = await it.send("faster", on_busy="steer")
        hands.gates["slow"].set()
        await it.ended(turn)
        assert first.end.joined_turn is turn, "it joined the step that failed"
        assert (await it.sessions().get("operator", turn.session.id)).status.state == "error"
        late = await it.send("again", on_busy="steer")
        await it.ended(late)
        assert late.end.joined_turn is None
        assert_fit_for_a_provider(it.model.requests[-1][1])
        assert sum(b'"faster"' in message for message in it.model.requests[-1][1]) == 1


async def test_several_join_in_their_order(tmp_path: Path) -> None:
    world, hands = busy(tmp_path)
    async with world as it:
        turn = await it.send("go")
        await hands.entered.wait()
        steers = [await it.send(text, on_busy="steer") for text in ("one", "two", "three")]
        hands.gates["slow"].set()
        await it.ended(turn, *steers)
        sent = assert_fit_for_a_provider(it.model.requests[1][1])
        assert [one["content"] for one in sent[-3:]] == ["one", "two", "three"]


@pytest.mark.parametrize("first", ["cancel", "claim"])
async def test_of_a_cancel_and_a_claim_exactly_one_wins(tmp_path: Path, first: str) -> None:
    world, hands = busy(tmp_path)
    async with world as it:
        turn = await it.send("go")
        await hands.entered.wait()
        steer = await it.send("faster", on_busy="steer", message_id="s")
        if first == "cancel":
            with slow_disk(it):
                cancelling = asyncio.create_task(it.admission.cancel_queued(steer))
                await until(lambda: steer.state == "finalizing")
                hands.gates["slow"].set()
        else:
            with slow_disk(it):
                hands.gates["slow"].set()
                await until(lambda: steer.state == "finalizing")
                cancelling = asyncio.create_task(it.admission.cancel_queued(steer))
                await until(cancelling.done)
        won = await cancelling
        await it.ended(turn, steer)
        joined = [part for part in turn.end.reply_parts if part["type"] == "data-steer"]
        assert (won, bool(joined), steer.end.joined_turn) == (
            (True, False, None) if first == "cancel" else (False, True, turn)
        )
        sent = b"".join(it.model.requests[1][1])
        assert (b"faster" in sent) is not won
        rows = await it.rows("SELECT outcome_json FROM turns WHERE message_id = ?", steer.message_id)
        assert json.loads(rows[0][0])["status"] == ("cancelled" if won else "steered")


async def test_an_abort_while_a_message_joins_loses_nothing(tmp_path: Path) -> None:
    world, hands = busy(tmp_path, say("next"))
    async with world as it:
        turn = await it.send("go")
        await hands.entered.wait()
        steer = await it.send("faster", on_busy="steer", message_id="s")
        with slow_disk(it):
            hands.gates["slow"].set()
            await until(lambda: steer.state == "finalizing")
            stopping = asyncio.create_task(it.admission.stop(turn))
            await until(lambda: turn.end.stop_reason == "cancelled")
        await stopping
        await it.ended(steer)
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "cancelled"
        assert steer.end.joined_turn is turn
        assert len([part for part in turn.end.reply_parts if part["type"] == "data-steer"]) == 1
        assert turn.end.reply_parts == (await stored(it, turn)).parts
        await it.ended(await it.send("and now?"))
        assert_fit_for_a_provider(it.model.requests[-1][1])
        assert sum(b'"faster"' in message for message in it.model.requests[-1][1]) == 1


async def test_the_same_id_again_finds_the_turn_that_it_joined_and_later_its_end(tmp_path: Path) -> None:
    gate = asyncio.Event()
    world, hands = busy(tmp_path, [gate.wait(), *say("as you wish")])
    async with world as it:
        turn = await it.send("go")
        await hands.entered.wait()
        steer = await it.send("faster", on_busy="steer", message_id="s")
        following = asyncio.create_task(heard(steer))
        hands.gates["slow"].set()
        await it.ended(steer)
        assert await it.chats.send(incoming("faster", on_busy="steer", message_id="s")) is turn
        gate.set()
        await it.ended(turn)
        assert await following == await heard(turn)
    async with World(tmp_path) as it:
        known = await it.chats.send(incoming("faster", on_busy="steer", message_id="s"))
        assert isinstance(known, CompletedTurn)
        assert known.reply is not None
        assert known.reply.id == turn.request.reply_id
        assert known.public_ids["message_id"] == "s"
        assert known.outcome["status"] == "complete"
        assert not it.model.requests


async def test_a_message_steers_a_turn_that_waits_once_that_goes_on(tmp_path: Path) -> None:
    model = FakeModel([call(("q", "question", ASK)), say("done")])
    async with World(tmp_path, model, catalog=Hands().catalog()) as it:
        turn = await waits(await it.send("paint"))
        steer = await it.send("quickly", on_busy="steer")
        assert steer.state == "queued"
        await answer(it, turn, "q", "blue")
        await it.ended(turn, steer)
        assert steer.end.joined_turn is turn
        sent = assert_fit_for_a_provider(model.requests[1][1])
        assert [one["role"] for one in sent[-2:]] == ["tool", "user"]
        assert sent[-1]["content"] == "quickly"
        assert (await read_back(it, turn))[: len(sent)] == model.requests[1][1]


async def test_a_message_that_steers_a_turn_that_waits_still_steers_after_a_restart(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([call(("q", "question", ASK))]), catalog=Hands().catalog()) as it:
        await waits(await it.send("paint", message_id="m"))
        await it.send("quickly", on_busy="steer", message_id="s")
    model = FakeModel([say("done")])
    async with World(tmp_path, model, catalog=Hands().catalog()) as it:
        turn, steer = await it.send("paint", message_id="m"), await it.send("quickly", message_id="s")
        await answer(it, turn, "q", "blue")
        await it.ended(turn, steer)
        assert steer.end.joined_turn is turn
        assert_fit_for_a_provider(model.requests[0][1])
        assert (await read_back(it, turn))[: len(model.requests[0][1])] == model.requests[0][1]


async def test_a_person_steers_a_task_also_over_a_restart(tmp_path: Path) -> None:
    hands = Hands(gates={"slow": asyncio.Event(), "slower": asyncio.Event()})
    first = FakeModel([call(SLOW), call(("d", "slower", "{}"))])
    async with World(tmp_path, first, catalog=hands.catalog("slow", "slower")) as it:
        turn = (await it.tasks.assign(assignment(), "operator")).turn
        assert turn is not None
        await hands.entered.wait()
        steer = await it.send("faster", session=turn.session.id, on_busy="steer")
        hands.entered.clear()
        hands.gates["slow"].set()
        await hands.entered.wait()
        assert steer.end.joined_turn is turn
    model = FakeModel([say("done")])
    async with World(tmp_path, model, catalog=hands.catalog("slow", "slower")) as it:
        resumed = await it.tasks.turn("task-1", "operator")
        if resumed is not None:
            await it.ended(resumed)
        assert (await it.tasks.record("task-1", "operator")).status == "complete"
        sent = model.requests[0][1]
        assert sent[: len(first.requests[1][1])] == first.requests[1][1]
        assert_fit_for_a_provider(sent)
        assert sum(b'"faster"' in message for message in sent) == 1


MOMENTS = st.lists(st.sampled_from(["steer", "queue", "cancel", "step"]), max_size=10)


@given(MOMENTS, st.integers(0, 3))
def test_each_message_is_heard_once_wherever_it_comes_in(moments: list[str], rounds: int) -> None:
    async def run(path: str) -> None:
        doors = [asyncio.Event() for _ in range(rounds + 1)]
        plays = [[doors[n].wait(), *call((f"c{n}", "echo", "{}"))] for n in range(rounds)]
        model = FakeModel([*plays, [doors[rounds].wait(), *say("the end")]])
        async with World(Path(path), model) as it:
            turn = await it.send("go")
            sent: dict[str, Turn] = {}
            cancelled: set[str] = set()
            opened = 0
            for number, moment in enumerate(moments):
                if moment == "step" and opened <= rounds:
                    doors[opened].set()
                    opened += 1
                    await it.database.write(lambda _: None)
                elif moment == "cancel" and sent:
                    name = list(sent)[-1]
                    if await it.admission.cancel_queued(sent[name]):
                        cancelled.add(name)
                else:
                    name = f"<{number}>"
                    sent[name] = await it.send(name, on_busy="steer" if moment == "steer" else "queue")
            for door in doors:
                door.set()
            await it.ended(turn, *sent.values())
            await it.ended(await it.send("last"))
            last = model.requests[-1][1]
            assert_fit_for_a_provider(last)
            assert (await read_back(it, turn))[: len(last)] == last
            for name, one in sent.items():
                times = sum(name.encode() in message for message in last)
                assert times == (0 if name in cancelled else 1), name
                assert one.end.joined_turn in (None, turn)
                assert await settled(it, one) == "ended"
            assert it.admission.slots.free == 4
            assert not it.admission.queues.all()

    with TemporaryDirectory() as path:
        asyncio.run(asyncio.wait_for(run(path), PATIENCE))


async def test_a_rewind_to_a_message_that_steered_takes_back_what_it_said(tmp_path: Path) -> None:
    """It is said inside of the reply that it joined; whoever takes it back must not go on hearing it."""
    world, hands = busy(tmp_path, say("as you wish"))
    async with world as it:
        turn = await it.send("go")
        await hands.entered.wait()
        steer = await it.send("faster", on_busy="steer", message_id="s")
        hands.gates["slow"].set()
        await it.ended(turn, steer)
        assert "c" in calls_of(turn.end.reply_parts)
        with contextlib.suppress(Conflict, InvalidRequest):
            await it.sessions().rewind("operator", turn.session.id, "s")
            await it.ended(await it.send("and now?"))
            assert not any(b'"faster"' in message for message in it.model.requests[-1][1])


async def test_a_message_for_another_agent_joins_nobody_else_s_turn(tmp_path: Path) -> None:
    """What is meant for an agent that may do less must not be carried out by one that may do more."""
    world, hands = busy(tmp_path, say("as you wish"), say("planned"))
    (world.home.agents / "build.md").write_text(OPEN_AGENT)
    async with world as it:
        turn = await it.send("go", agent="build")
        await hands.entered.wait()
        other = await it.send("plan it", on_busy="steer", agent="plan")
        unnamed = await it.send("faster", on_busy="steer")
        hands.gates["slow"].set()
        await it.ended(turn, other, unnamed)
        assert (other.end.joined_turn, unnamed.end.joined_turn) == (None, turn)
        assert other.end.reply_parts != []
        assert [one.request.agent for one in (turn, unnamed, other)] == ["build", "build", "plan"]


async def test_a_message_that_could_not_be_written_down_as_joined_is_said_once(tmp_path: Path) -> None:
    world, hands = busy(tmp_path, say("own"), say("next"))
    async with world as it:
        turn = await it.send("go")
        await hands.entered.wait()
        steer = await it.send("faster", on_busy="steer", message_id="s")
        await it.database.write(
            lambda connection: connection.execute(
                "CREATE TRIGGER no BEFORE UPDATE ON chat_messages WHEN new.metadata_json LIKE '%steered_at%'"
                " BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        )
        hands.gates["slow"].set()
        await it.ended(turn)
        assert steer.end.joined_turn is None
        await it.ended(await it.send("next"), steer)
        last = it.model.requests[-1][1]
        assert_fit_for_a_provider(last)
        assert sum(b'"content":"faster' in message for message in last) == 1
