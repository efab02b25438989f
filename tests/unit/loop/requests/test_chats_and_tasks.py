"""Chats and tasks on a real database: idempotency, records, restarts."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import TasksQuery, Usage, without_notes
from agent_runtime.errors import Conflict, ModelError, NotFound, StoreError
from agent_runtime.loop import CompletedTurn, Turn, TurnLimits, list_tasks, reply_of
from agent_runtime.loop.core.turn_state import TurnOutcome
from agent_runtime.loop.requests.task_result import parse_answer, result_of, task_message
from agent_runtime.ports import TextPiece, ToolContext, ToolResult
from agent_runtime.sessions import replay
from agent_testing import ManualClock
from tests.unit.loop.support import FakeModel, FakeTools, World, assignment, call, incoming, say, settled

ANSWER = json.dumps({"result": {"sum": 3}, "promote": {"seen": True}})


async def test_a_message_that_is_sent_twice_runs_once(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([call(("c1", "echo", '{"a": 1}')), say("hello")])) as world:
        both = await asyncio.gather(*(world.chats.send(incoming("hi", message_id="m")) for _ in range(2)))
        turn = next(sent for sent in both if isinstance(sent, Turn))  # the other may find it running or ended
        await world.ended(turn)
        again = await world.chats.send(incoming("hi", message_id="m"))
        assert isinstance(again, CompletedTurn)
        assert again.reply is not None
        assert again.public_ids == {"session_id": turn.session.id, "message_id": "m"}
        reply = reply_of(again.public_ids, again.reply.parts, Usage(), again.outcome)
        assert (reply.response, reply.finish_reason) == ("hello", "stop")
        assert [(one.name, one.state, one.input) for one in reply.tool_outputs] == [
            ("echo", "output-available", {"a": 1})
        ]
        assert len(world.model.requests) == 2
        assert list(replay(again.reply))


async def test_a_session_is_named_by_the_first_text_that_is_said_in_it(tmp_path: Path) -> None:
    picture = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,"}
    async with World(tmp_path, FakeModel([say("yes")] * 3)) as world:
        await world.ended(await world.send(parts=[picture]))
        await world.ended(await world.send("what is this?"))
        await world.ended(await world.send("and this?"))
        [[title]] = await world.rows("SELECT json_extract(metadata_json, '$.title') FROM chat_sessions")
        assert title == "what is this?"


@pytest.mark.parametrize("again", [{"regenerate": True}, {"text": "or this", "is_edit": True}], ids=str)
async def test_a_message_that_was_cancelled_in_the_queue_can_be_answered_after_all(
    tmp_path: Path, again: dict[str, Any]
) -> None:
    async with World(tmp_path, FakeModel([[asyncio.Event().wait()], say("here it is")]), slots=1) as world:
        blocker = await world.send("holds the slot", session="other")
        await world.admission.stop(await world.send("this", message_id="m"))
        await world.admission.stop(blocker)
        turn = await world.send(**{"text": "this", "message_id": "m", **again})
        await world.ended(turn)
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        known = await world.chats.send(incoming(again.get("text", "this"), message_id="m"))
        assert isinstance(known, CompletedTurn)
        assert known.outcome["status"] == "complete"


@pytest.mark.parametrize("again", [{"text": "this", "regenerate": True}, {"text": "that", "is_edit": True}], ids=str)
async def test_what_was_said_after_a_cancelled_message_is_taken_back_with_it(
    tmp_path: Path, again: dict[str, Any]
) -> None:
    gate = asyncio.Event()
    plays = [[gate.wait(), *say("one")], say("two"), say("later"), say("here it is")]
    async with World(tmp_path, FakeModel(plays)) as world:
        first, second = await world.send("first"), await world.send("second")
        await world.admission.stop(await world.send("this", message_id="m"))
        gate.set()
        await world.ended(first, second)  # the second was sent before the cancelled one, and runs after that
        await world.ended(await world.send("much later"))
        await world.ended(await world.send(**again, message_id="m"))
        assert said_of(world) == ["first", "one", "second", "two", again["text"]]


@pytest.mark.parametrize("again", [{"text": "this", "regenerate": True}, {"text": "that", "is_edit": True}], ids=str)
@pytest.mark.parametrize("name", ["m", "failed"])
async def test_what_rests_in_the_queue_can_be_taken_back(tmp_path: Path, again: dict[str, Any], name: str) -> None:
    """The queue rests after the turn that failed: with the message goes what waits behind it."""
    gate = asyncio.Event()
    async with World(tmp_path, FakeModel([[gate.wait(), ModelError("no", code="model_auth")]])) as world:
        failed = await world.send("failed", message_id="failed")
        queued = [await world.send(words, message_id=words) for words in ("before", "m", "behind")]
        gate.set()
        await world.ended(failed)
        await world.ended(*queued, await world.send(**again, message_id=name))
        kept = {"m": ["failed", "before", "done"], "failed": []}[name]
        assert said_of(world) == [*kept, again["text"]]
        ends = [turn.end.outcome.status for turn in queued if turn.end.outcome]
        assert ends == ["complete" if name == "m" else "cancelled", "cancelled", "cancelled"]
    async with World(tmp_path) as world:
        assert not world.admission.queues.all()


def said_of(world: World) -> list[str]:
    """The conversation that the model was sent last."""
    said = [json.loads(message)["content"] for message in world.model.requests[-1][1][1:]]
    return [without_notes(text) for text in said]


async def test_an_earlier_message_that_is_submitted_anew_takes_back_what_came_behind_it(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([say("hello Ada"), say("bye"), say("hello again")])) as world:
        for words in ("I am Ada", "Bye"):
            await world.ended(await world.send(words, message_id=words))
        last = await world.chats.send(incoming("Bye", message_id="Bye", is_edit=True))
        assert isinstance(last, CompletedTurn), "nothing came behind it"
        await world.ended(await world.send("I am Ada", message_id="I am Ada", is_edit=True))
        again = await world.chats.send(incoming("I am Ada", message_id="I am Ada", is_edit=True))
        assert isinstance(again, CompletedTurn), "it is the last now"
        await world.ended(await world.send("Who?"))
        assert said_of(world) == ["I am Ada", "hello again", "Who?"]


async def test_sessions_of_others_are_not_there(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        turn = await world.send("secret", session="shared")
        await world.ended(turn)
        with pytest.raises(NotFound):
            await world.chats.send(incoming("hi", principal="eve", session=turn.session.id))
        other = await world.send("hi", principal="eve", session="shared")
        await world.ended(other)
        assert other.session.id != turn.session.id
        assert b"secret" not in b"".join(world.model.requests[-1][1])
        with pytest.raises(NotFound):
            await world.send("hi", session="ses_" + "0" * 26)


async def test_a_session_is_found_again_in_the_next_life(tmp_path: Path) -> None:
    clock = ManualClock()
    async with World(tmp_path, FakeModel([say("first answer")]), clock=clock) as world:
        first = await world.send("first", session="mine", model="big")
        await world.ended(first)
    clock.set_wall(clock.now_ms() - 3_600_000)
    async with World(tmp_path, clock=clock) as world:
        second = await world.send("second", session="mine")
        await world.ended(second)
        third = await world.send("third", session=first.session.id)
        await world.ended(third)
        assert second.session.id == first.session.id
        assert second.model == "big"
        said = [json.loads(message)["content"] for message in world.model.requests[-1][1]]
        assert [without_notes(text) for text in said[1:]] == ["first", "first answer", "second", "done", "third"]
        third.session.view = None
        await world.ended(await world.send("fourth", session="mine"))
        again = [json.loads(message)["content"] for message in world.model.requests[-1][1]]
        assert again[: len(said)] == said


async def test_a_refused_message_does_not_change_the_model(tmp_path: Path) -> None:
    async with World(tmp_path, queue=0, slots=1, model=FakeModel([[asyncio.Event().wait()]])) as world:
        turn = await world.send("one")
        with pytest.raises(Exception, match="waiting"):
            await world.send("two", model="big")
        assert turn.session.model == "m"
        await world.admission.stop(turn)


async def test_an_archived_session_takes_no_message(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        turn = await world.send("one", session="mine")
        await world.ended(turn)
        fresh, old = await world.chats.reset("operator", "mine")
        assert old == turn.session.id
        with pytest.raises(Conflict) as caught:
            await world.send("two", session=old)
        assert caught.value.code == "session_archived"
        after = await world.send("two", session="mine")
        assert after.session.id == fresh
        await world.ended(after)
        assert (await world.chats.reset("operator", "never seen"))[1] is None


async def test_a_task_from_its_start_to_its_result(tmp_path: Path) -> None:
    model = FakeModel([call(("c1", "echo", "{}")), say(ANSWER, usage=Usage(input=5, output=5))])
    async with World(tmp_path, model) as world:
        assert await world.tasks.latest("operator") is None
        first, twin = await asyncio.gather(*(world.tasks.assign(assignment(), "operator") for _ in range(2)))
        accepted = first.accepted or twin.accepted
        assert accepted is not None
        assert (first.accepted is None) != (twin.accepted is None)
        turn = first.turn or twin.turn
        assert turn is not None
        await world.ended(turn)
        record = await world.tasks.record("task-1", "operator")
        assert record.status == "complete"
        assert record.result == {"sum": 3}
        assert record.promote_to_blackboard == {"seen": True}
        assert (record.tokens_used, record.attempts, record.error) == (25, 1, None)
        assert record.finished_at is not None
        assert await world.tasks.latest("operator") == record
        assert await world.tasks.latest("eve") is None
        reply = await world.tasks.reply("task-1", "operator")
        assert reply is not None
        again = await world.tasks.assign(assignment(), "operator")
        assert (again.accepted, again.record) == (None, record)
        with pytest.raises(Conflict):
            await world.tasks.assign(assignment(timeout=5), "operator")
        assert (await world.tasks.cancel("task-1", "operator")) == record
        assert (world.counters.completed_tasks, world.counters.failed_tasks, world.counters.steps) == (1, 0, 2)
        for missing in (world.tasks.record, world.tasks.turn, world.tasks.reply):
            with pytest.raises(NotFound):
                await missing("task-1", "eve")


async def test_a_retry_does_not_spoil_the_answer(tmp_path: Path) -> None:
    broken = [TextPiece('{"result": {"su'), ModelError("dropped", transient=True)]
    async with World(tmp_path, FakeModel([broken, say(ANSWER)])) as world:
        assigned = await world.tasks.assign(assignment(max_retries=1), "operator")
        assert assigned.turn is not None
        await world.ended(assigned.turn)
        record = await world.tasks.record("task-1", "operator")
        assert record.result == {"sum": 3}
        assert record.attempts == 2


async def test_a_task_that_is_cancelled_while_it_waits(tmp_path: Path) -> None:
    model = FakeModel([[asyncio.Event().wait()]])
    async with World(tmp_path, model, slots=1) as world:
        blocker = await world.send("elsewhere")
        assigned = await world.tasks.assign(assignment(), "operator")
        assert assigned.accepted is not None
        assert (assigned.accepted.status, assigned.accepted.queued_behind) == ("queued", 1)
        record = await world.tasks.cancel("task-1", "operator")
        assert (record.status, record.error_code, record.attempts) == ("cancelled", "cancelled", 0)
        await world.admission.stop(blocker)


async def test_a_task_under_way_tells_how_far_it_is(tmp_path: Path) -> None:
    model = FakeModel([call(("c1", "echo", "{}")), [asyncio.Event().wait()]])
    async with World(tmp_path, model, slots=1) as world:
        assigned = await world.tasks.assign(assignment(), "operator")
        turn = assigned.turn
        assert turn is not None
        while len(model.requests) < 2:
            await asyncio.sleep(0)
        world.clock.advance(3)
        record = await world.tasks.record("task-1", "operator")
        assert (record.status, record.tokens_used, record.duration_ms) == ("running", 15, 3000)
        assert (await world.tasks.cancel("task-1", "operator")).status == "cancelled"


async def test_a_task_goes_on_behind_the_call_that_a_crash_broke_off(tmp_path: Path) -> None:
    """The first life is broken off without a drain, in the middle of a tool."""
    entered = asyncio.Event()

    async def hang(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    model = FakeModel([call(("c1", "hang", "{}"), text="I begin")])
    async with World(tmp_path, model, tools=FakeTools({"hang": hang}), slots=1) as world:
        await world.tasks.assign(assignment(), "operator")
        await world.tasks.assign(assignment(task_id="task-2"), "operator")
        await entered.wait()
    model = FakeModel([say(ANSWER), say(ANSWER)])
    async with World(tmp_path, model) as world:
        for task_id in ("task-1", "task-2"):
            turn = await world.tasks.turn(task_id, "operator")
            if turn is not None:
                await world.ended(turn)
        resumed = await world.tasks.record("task-1", "operator")
        assert (resumed.status, resumed.result, resumed.attempts) == ("complete", {"sum": 3}, 1)
        assert resumed.tokens_used == 26
        reply = await world.tasks.reply("task-1", "operator")
        assert reply is not None
        (orphan,) = [part for part in reply.parts if part["type"] == "tool-hang"]
        assert orphan["state"] == "output-error"
        assert "outcome unknown" in orphan["errorText"]
        done = await world.tasks.record("task-2", "operator")
        assert (done.status, done.result, done.attempts) == ("complete", {"sum": 3}, 1)


async def test_a_message_keeps_the_name_of_its_session_in_the_next_life(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([[asyncio.Event().wait()]]), slots=1) as world:
        await world.send("first", session="other")
        await world.chats.send(incoming("second", session="mine", message_id="m"))
    gate = asyncio.Event()
    async with World(tmp_path, FakeModel([[gate.wait(), *say("hello")]])) as world:
        turn = await world.chats.send(incoming("second", session="mine", message_id="m"))
        assert isinstance(turn, Turn)
        assert turn.public_ids() == {"session_id": "mine", "message_id": "m"}
        gate.set()
        await world.ended(turn)


async def test_scratch_is_there_for_tools_and_goes_with_its_session(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([say("no tools"), call(("c1", "echo", "{}")), say("done")])) as world:
        turn = await world.send("hi")
        await world.ended(turn)
        scratch = world.home.scratch(turn.session.id)
        assert not scratch.exists()
        await world.ended(await world.send("use one"))
        (scratch / "spilled").write_text("output")
        await world.chats.reset("operator", None)
        assert not scratch.exists()


async def test_a_disk_that_fails_at_the_end_is_told(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([say("lost")])) as world:

        def no(connection: Any, turn: Turn, now: int) -> None:
            if turn.end.outcome is not None and turn.end.outcome.status == "complete":
                raise OSError("no space")

        gate = asyncio.Event()
        world.model.plays = [[gate.wait(), *say("hello")]]
        turn = await world.send("hi")
        turn.request = replace(turn.request, on_end=no)
        gate.set()
        await world.ended(turn)
        assert turn.end.outcome is not None
        assert turn.end.outcome.error_code == "internal_error"
        assert await settled(world, turn) == "ended"
        said = b"".join([event async for event in turn.stream.follow()])
        assert said.count(b'"type":"finish"') == 1
        assert b'"type":"error"' in said
        row = await world.rows("SELECT metadata_json FROM chat_messages WHERE id = ?", turn.request.reply_id)
        assert json.loads(row[0][0])["outcome"]["error_code"] == "internal_error"
        again = await world.send("still here?")
        await world.ended(again)
        assert b"hello" in b"".join(world.model.requests[-1][1])


@pytest.mark.parametrize("refused", [0, 9], ids=["at once", "late"])
async def test_a_turn_whose_parts_cannot_be_recorded_ends_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    monkeypatch.setattr("agent_runtime.loop.execution.finalizer.RETRY_SECONDS", (0.0,))
    monkeypatch.setattr("agent_runtime.loop.execution.finalizer.LATE_RETRY_SECONDS", 0.01)
    gate = asyncio.Event()
    good, bad = call(("c1", "echo", "{}")), call(("c2", "re\ud800ad", "{}"))
    model = FakeModel([[gate.wait(), *good], bad, say("fine")])
    async with World(tmp_path, model) as world:
        refusals = iter(range(refused))

        def locked(connection: Any, turn: Turn, now: int) -> None:
            if next(refusals, None) is not None:
                raise StoreError("database is locked")

        turn = await world.send("hi")
        turn.request = replace(turn.request, on_end=locked)
        gate.set()
        await world.ended(turn)
        assert turn.end.outcome is not None
        assert turn.end.outcome.error_code == "internal_error"
        async with asyncio.timeout(10):
            while await settled(world, turn) != "ended":
                await asyncio.sleep(0.01)
        row = await world.rows("SELECT outcome_json FROM turns WHERE message_id = ?", turn.message_id)
        assert json.loads(row[0][0])["error_code"] == "internal_error"
        assert "\ud800" not in json.dumps(turn.end.reply_parts, ensure_ascii=False)
        spent = await world.rows("SELECT total_tokens FROM chat_sessions WHERE id = ?", turn.session.id)
        assert spent[0][0] == 15
        await world.ended(after := await world.send("still here?"))
        assert after.end.outcome is not None
        assert after.end.outcome.status == "complete"


async def test_many_sessions_are_forgotten_and_found_again(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        first = await world.send("remember me", session="first")
        await world.ended(first)
        for number in range(1100):
            conversation = world.conversations.create("operator", f"s{number}")
            conversation.stored = True
        assert first.session.id not in world.conversations._known
        again = await world.send("and now?", session="first")
        await world.ended(again)
        assert again.session is not first.session
        assert b"remember me" in b"".join(world.model.requests[-1][1])


@pytest.mark.parametrize(
    ("text", "result", "promote"),
    [
        ('{"result": {"a": 1}}', {"a": 1}, {}),
        ('{"result": {"a": 1}, "promote": {"b": 2}}', {"a": 1}, {"b": 2}),
        ('{"result": {"a": 1}, "promote": [3]}', {"a": 1}, {}),
        ('  ```json\n{"result": {}}\n```  ', {}, {}),
        ('```\n{"result": {"a": 1}}```', {"a": 1}, {}),
        ("```json```", {"text": "```json```"}, {}),
        ('{"result": 3}', {"text": '{"result": 3}'}, {}),
        ("[1]", {"text": "[1]"}, {}),
        ("All done.", {"text": "All done."}, {}),
        ("", {"text": ""}, {}),
    ],
)
def test_how_an_answer_is_read(text: str, result: dict[str, Any], promote: dict[str, Any]) -> None:
    assert parse_answer(text) == (result, promote)


def test_what_there_is_of_a_result() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "step-start"},
        {"type": "text", "text": "so far"},
        {"type": "tool-read", "state": "output-error"},
    ]
    timeout = TurnOutcome("timeout", "other", "deadline_exceeded", "late", "deadline")
    assert result_of(timeout, parts) == ({"text": "so far", "partial": True, "steps": 1, "tool_calls": 1}, {})
    assert result_of(TurnOutcome("failed", "error", "model_auth"), []) == (None, {})
    message = task_message(assignment(context={"é": 1}))
    assert '"n": 1' in message
    assert "é" in message
    assert "Context" not in task_message(assignment())
    assert TurnLimits(1, 1).retries == 0


async def test_a_full_queue_that_rests_can_be_woken(tmp_path: Path) -> None:
    gate = asyncio.Event()
    broken = [[gate.wait(), ModelError("gone", code="model_auth")]]
    async with World(tmp_path, FakeModel(broken), slots=1, queue=2) as world:
        first = await world.send("first")
        waiting = [await world.send("second"), await world.send("third")]
        gate.set()
        await world.ended(first)
        assert [turn.state for turn in waiting] == ["queued", "queued"]
        await world.ended(await world.send("wake up"))
        assert [turn.state for turn in waiting] == ["ended", "ended"]


async def test_a_cancel_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with World(tmp_path, FakeModel([[gate.wait(), *say("one")], say(ANSWER)]), slots=1) as world:
        await world.send("holds the slot")
        assigned = await world.tasks.assign(assignment(), "operator")
        turn = assigned.turn
        assert turn is not None

        def no(connection: Any, turn: Turn, now: int) -> None:
            raise OSError("no space")

        good, turn.request = turn.request, replace(turn.request, on_end=no)
        with pytest.raises(OSError, match="no space"):
            await world.tasks.cancel("task-1", "operator")
        turn.request = good
        gate.set()
        await world.ended(turn)
        assert (await world.tasks.record("task-1", "operator")).status == "complete"


async def test_a_disk_that_refuses_for_a_moment_falsifies_nothing(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([say("the answer")])) as world:
        refusals = iter([True])

        def once(connection: Any, turn: Turn, now: int) -> None:
            if next(refusals, False):
                raise StoreError("database is locked")

        gate = asyncio.Event()
        world.model.plays = [[gate.wait(), *say("the answer")]]
        turn = await world.send("hi")
        turn.request = replace(turn.request, on_end=once)
        gate.set()
        await world.ended(turn)
        assert turn.end.outcome is not None
        assert turn.end.outcome.status == "complete"
        row = await world.rows("SELECT outcome_json FROM turns WHERE message_id = ?", turn.message_id)
        assert json.loads(row[0][0])["status"] == "complete"


async def test_a_queued_task_that_cannot_be_read_stops_no_start(tmp_path: Path) -> None:
    async with World(tmp_path, FakeModel([[asyncio.Event().wait()]]), slots=1) as world:
        await world.send("holds the slot")
        await world.tasks.assign(assignment(), "operator")
        await world.database.write(lambda connection: connection.execute("UPDATE tasks SET assignment_json = '{}'"))
    async with World(tmp_path) as world:
        record = await world.tasks.record("task-1", "operator")
        assert (record.status, record.error_code) == ("failed", "interrupted")
        await world.ended(await world.send("still here?"))


async def test_a_page_of_tasks_with_large_results_is_cut(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        for number in range(5):
            turn = (await world.tasks.assign(assignment(task_id=f"t{number}"), "operator")).turn
            assert turn is not None
            await world.ended(turn)

        def enlarge(connection: sqlite3.Connection) -> None:
            dense = '{"x":[' + ",".join(['{"":0}'] * 10_000) + "]}"
            connection.execute("UPDATE tasks SET record_json = json_set(record_json, '$.result', json(?))", (dense,))
            connection.execute("UPDATE tasks SET assignment_json = 'is not read'")

        await world.database.write(enlarge)
        pages = [await list_tasks(world.tasks, None, TasksQuery(limit=500))]
        while pages[-1].next is not None:
            pages.append(await list_tasks(world.tasks, None, TasksQuery(limit=500, after=pages[-1].next)))
    assert [[one.task_id for one in page.tasks] for page in pages] == [["t4", "t3"], ["t2", "t1"], ["t0"]]
