"""Sessions as the loop sees them: how they stand, and what happens when somebody changes one that others use."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from agent_common.protocol import (
    ForkRequest,
    MessagesQuery,
    PermissionsUpdate,
    SessionPatch,
    SessionRule,
    SessionsQuery,
    Usage,
    without_notes,
)
from agent_runtime.errors import Conflict, ModelError
from agent_runtime.loop import SessionService, compute_session_status
from agent_runtime.loop.sessions.cost import cost_of
from agent_runtime.ports import Retrying
from tests.unit.loop.people import slow_disk
from tests.unit.loop.support import FakeModel, World, new_turn, say, until

FIXED = {"human_input_state_authoritative": True, "queue_enqueue_idempotent": True}


def sessions(world: World) -> SessionService:
    return world.sessions()


def stands(*given: Any) -> dict[str, Any]:
    found = compute_session_status(*given).model_dump()
    assert FIXED.items() <= found.items()
    return {key: value for key, value in found.items() if key not in FIXED}


def test_the_states() -> None:
    turn = new_turn(message_name="m1")
    failed, timeout = {"status": "failed", "error": "no"}, {"status": "timeout", "error": "late"}
    assert stands(None, None) == {"state": "idle"}
    assert stands(turn, failed) == {"state": "busy", "message_id": "m1"}
    turn.start.at_ms, turn.retry.reason = 5, "overloaded"
    retrying = {"state": "retrying", "message": "overloaded", "message_id": "m1", "started_at": 5}
    assert stands(turn, None) == retrying
    assert stands(None, failed) == {"state": "error", "message": "no"}
    assert stands(None, timeout) == {"state": "error", "message": "late"}
    for status in ("complete", "cancelled"):
        assert stands(None, {"status": status}) == {"state": "idle"}


def test_the_cost_of_a_session_is_what_was_recorded() -> None:
    paid, unknown = Usage(input=5, cost_usd=0.25), Usage(input=5)
    assert cost_of({}) == (0.0, [])
    assert cost_of({"m": paid, "x": paid, "y": Usage()}) == (0.5, [])
    assert cost_of({"m": paid, "x": unknown, "y": Usage()}) == (None, ["x"])


async def test_a_session_that_retries_or_waits_for_a_slot_says_so(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = FakeModel([[Retrying(1, "overloaded", 0.1), gate.wait(), *say("ok")]])
    async with World(tmp_path, model, slots=1) as world:
        room = sessions(world)
        first = await world.send(session="a")
        second = await world.send(session="b")
        await until(lambda: first.retry.reason is not None)
        assert (await room.get("operator", "a")).status.state == "retrying"
        waiting = await room.get("operator", "b")
        assert (waiting.status.state, waiting.status.started_at) == ("busy", None)
        assert [one.message_id for one in waiting.queue] == [second.request.message_name]
        gate.set()
        await world.ended(first, second)
        assert (await room.get("operator", "a")).status.state == "idle"


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_session_whose_model_call_is_given_up_does_not_retry(tmp_path: Path, *, stopped: bool) -> None:
    """Its end is being written to the disk, which takes a while."""
    gate = asyncio.Event()
    given_up = asyncio.Event().wait() if stopped else ModelError("still overloaded")
    model = FakeModel([[gate.wait(), Retrying(1, "overloaded", 0.1), given_up]])
    async with World(tmp_path, model) as world:
        turn = await world.send(session="a")
        await until(lambda: bool(model.requests))
        with slow_disk(world):
            gate.set()
            if stopped:
                await until(lambda: turn.retry.reason is not None)
                turn.stop("cancelled")
            await until(lambda: turn.state == "finalizing")
            assert (await sessions(world).get("operator", "a")).status.state == "busy"
        await world.ended(turn)


async def test_a_session_is_changed_by_one_at_a_time_and_messages_wait_meanwhile(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        room = sessions(world)
        await world.ended(await world.send(session="s"))
        forks = [asyncio.create_task(room.fork("operator", "s", ForkRequest())) for _ in range(3)]
        await until(lambda: any(task.done() for task in forks) or bool(world.admission.queues.held))
        turn = await world.send("meanwhile", session="s")
        done = await asyncio.gather(*forks, return_exceptions=True)
        made = [one for one in done if not isinstance(one, BaseException)]
        assert all(isinstance(one, Conflict) and one.code == "session_busy" for one in done if one not in made)
        assert made
        await world.ended(turn)
        assert all(one.total_tokens == 11 for one in made)
        assert (await room.get("operator", "s")).total_tokens == 22


@pytest.mark.parametrize("copy", ["fork", "import"])
async def test_a_message_of_a_copied_conversation_is_edited_as_any_other(tmp_path: Path, copy: str) -> None:
    async with World(tmp_path / "first") as first, World(tmp_path / "second") as second:
        turn = await first.send("I am Ada", message_id="m")
        await first.ended(turn)
        if copy == "fork":
            world, session = first, (await sessions(first).fork("operator", turn.session.id, ForkRequest())).id
        else:
            world, session = second, turn.session.id
            exported = await sessions(first).export("operator", session, whole=False)
            with exported:
                await sessions(second).import_session("operator", exported, keep_permissions=False)
        room = sessions(world)
        shown = (await room.messages("operator", session, MessagesQuery())).messages
        for words in ("I am Bob", "I am Eve"):
            await world.ended(await world.send(words, session=session, message_id=shown[0].id, is_edit=True))
            said = [json.loads(message)["content"] for message in world.model.requests[-1][1][1:]]
            assert [without_notes(text) for text in said] == [words]
        assert len((await room.messages("operator", session, MessagesQuery())).messages) == 2


async def test_the_view_is_that_of_the_disk_after_a_rewind(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([say("one"), say("two"), say("three")])) as world:
        room = sessions(world)
        for text in ("a", "b"):
            await world.ended(await world.send(text, session="s", message_id=text))
        await room.rewind("operator", "s", "b")
        await world.ended(await world.send("c", session="s"))
        sent = b"".join(world.model.requests[-1][1])
        assert b"one" in sent
        assert b"two" not in sent
        memory = (await room.prompt_view("operator", "s")).messages
        conversation = await world.conversations.find_or_create("operator", "s")
        conversation.view = None
        assert (await room.prompt_view("operator", "s")).messages == memory


async def test_a_session_that_could_not_be_put_away_goes_on(tmp_path: Path) -> None:
    refuse = "CREATE TRIGGER no BEFORE UPDATE OF archived_at ON chat_sessions BEGIN SELECT RAISE(ABORT, 'no'); END"
    async with World(tmp_path) as world:
        room = sessions(world)
        await world.ended(await world.send(session="s"))
        await world.database.write(lambda connection: connection.execute(refuse))
        with pytest.raises(sqlite3.IntegrityError):
            await room.archive("operator", "s")
        await world.database.write(lambda connection: connection.execute("DROP TRIGGER no"))
        await world.ended(await world.send(session="s"))
        assert (await room.get("operator", "s")).archived_at is None
        away = await room.patch("operator", "s", SessionPatch(archived=True))
        assert away.archived_at is not None
        assert (await room.archive("operator", away.id)).archived_at == away.archived_at
        back = await room.patch("operator", away.id, SessionPatch(archived=False))
        assert back.archived_at is None
        await world.ended(await world.send(session=away.id))
        assert len((await room.page("operator", SessionsQuery())).sessions) == 1


async def test_what_waits_in_a_session_ends_when_it_is_put_away(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([[asyncio.Event().wait()]])) as world:
        room = sessions(world)
        turns = [await world.send(session="s") for _ in range(3)]
        away = await room.archive("operator", "s")
        assert [turn.end.outcome.status for turn in turns if turn.end.outcome] == ["cancelled"] * 3
        assert (away.queue, away.status.state) == ([], "idle")


async def test_a_queue_that_rests_behind_an_error_outlives_a_rewind(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = FakeModel([[gate.wait(), ModelError("no", code="model_auth")], say("two"), say("three")])
    async with World(tmp_path, model) as world:
        room = sessions(world)
        failing, resting = await world.send("one", session="s", message_id="m1"), await world.send("two", session="s")
        gate.set()
        await world.ended(failing)
        stands = await room.get("operator", "s")
        assert stands.status.state == "error"
        assert [one.message_id for one in stands.queue] == [resting.request.message_name]
        assert (await room.rewind("operator", "s", "m1")).hidden == 2
        stands = await room.get("operator", "s")
        assert (stands.status.state, len(stands.queue)) == ("idle", 1)
        await world.ended(resting, await world.send("three", session="s"))
        asked = [without_notes(from_json(message)["content"]) for message in world.model.requests[-1][1][1:]]
        assert asked == ["two", "two", "three"]


async def test_rules_hold_also_when_whoever_set_them_hangs_up(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        turn = await world.send("hello")
        await world.ended(turn)
        update = PermissionsUpdate(rules=[SessionRule(permission="bash", action="deny")])
        with slow_disk(world) as disk:
            setting = asyncio.create_task(sessions(world).set_permissions("operator", turn.session.id, update))
            await until(lambda: bool(turn.session.rules))
            setting.cancel()
            await asyncio.wait({setting})
            assert setting.cancelled()
            disk.set()
        await world.database.write(lambda _: None)  # behind what was on its way
        stored = await world.rows("SELECT permissions_json FROM chat_sessions WHERE id = ?", turn.session.id)
        assert [rule["action"] for rule in from_json(stored[0][0])] == ["deny"]
        assert [rule.action for rule in turn.session.rules] == ["deny"]
