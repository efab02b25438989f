"""A crash costs at most one step: a task goes on from its record, and what must not happen twice does not."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Coroutine, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_common.protocol import TaskRecord, Usage
from agent_runtime.errors import ModelError
from agent_runtime.loop import Turn
from agent_runtime.loop.turn.repeat_guard import STOP_AT
from agent_runtime.ports import ToolContext
from agent_runtime.tools import Tool, ToolRegistry
from tests.unit.loop.people import calls_of, shown, stored
from tests.unit.loop.restarts import SPENT, End, Jumps, Life, Script, Step, progress_on_disk
from tests.unit.loop.support import PATIENCE, FakeModel, World, assignment, call, say, spec, until

MOST_LIVES = 3
CALLS = st.lists(st.tuples(st.sampled_from(["put", "look", "set"]), st.booleans()), min_size=1, max_size=3)
TEXTS = st.sampled_from(["", "one", "one two three"])
STEPS = st.lists(st.builds(Step, TEXTS, CALLS.map(tuple)), min_size=1, max_size=3)
ENDS = st.lists(
    st.builds(End, st.integers(0, 14), st.sampled_from(["drain", "crash"]), st.booleans()), min_size=1, max_size=5
)


class Story:
    """A task from its assignment to its end, over as many lives as it takes."""

    def __init__(self, script: Script, **task: Any) -> None:
        self.script, self.task = script, task
        self.barren = 0
        self.steps = self.done = 0
        self.crashes = 0
        self.running_when_over: Counter[str] = Counter()
        self.record: TaskRecord | None = None
        self.reply: list[dict[str, Any]] = []
        self.total = Usage()
        self.sums: dict[str, int] = {}

    async def live(self, folder: Path, ends: list[End]) -> None:
        for end in (*ends, None):
            life = Life(self.script, folder, end)
            async with life.world as it:
                turn = await self._turn(it)
                if turn is None or await _first(life, turn):
                    await self._read(it)
                    return
            folder = life.snapshot or folder
            self.crashes += life.snapshot is not None
            state, self.steps, done = progress_on_disk(folder / it.home.database.name)
            assert state == "running"
            self.barren = 0 if done > self.done else self.barren + 1
            self.done = done

    async def _turn(self, it: World) -> Turn | None:
        assigned = await it.tasks.assign(assignment(**self.task), "operator")
        return assigned.turn

    async def _read(self, it: World) -> None:
        self.record = await it.tasks.record("task-1", "operator")
        reply = await it.tasks.reply("task-1", "operator")
        assert reply is not None or self.record.status == "failed"
        self.reply = reply.parts if reply else []
        self.total = Usage.model_validate(reply.metadata.get("usage", {}) if reply else {})
        (row,) = await it.rows("SELECT * FROM chat_sessions")
        self.sums = {name: row[name] for name in ("prompt_tokens", "completion_tokens", "cache_read", "total_tokens")}


async def _first(life: Life, turn: Turn) -> bool:
    """Whether the turn has ended before its life did."""
    waits = [asyncio.ensure_future(turn.ended.wait()), asyncio.ensure_future(life.over.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    done = turn.ended.is_set()
    for wait in waits:
        wait.cancel()
    assert done or life.over.is_set()
    return done


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=Jumps) as runner:
        runner.run(coroutine)


@pytest.mark.slow
@given(STEPS, ENDS)
@example([Step("", (("put", False),))], [End(2, "crash")])
@example([Step("", (("look", False),))], [End(2, "drain"), End(0, "drain"), End(0, "drain"), End(2, "drain")])
@example([Step("", (("put", False),))], [End(3, "crash", saved=True)])
@example([Step("", (("look", False), ("put", False), ("set", True)))], [End(4, "drain"), End(1, "crash")])
def test_a_task_goes_on_over_any_number_of_lives(steps: list[Step], ends: list[End]) -> None:
    async def tell(path: str) -> None:
        script = Script([*steps, Step("the answer is 3")])
        story = Story(script)
        await story.live(Path(path), ends)
        check(story)

    with TemporaryDirectory() as path:
        run(tell(path))


@pytest.mark.slow
@given(STEPS, st.booleans(), ENDS)
@example([], False, [End(1, "crash", saved=True)])
@example([], False, [End(2, "crash", saved=True)])
@example([], True, [End(2, "drain"), End(1, "crash", saved=True)])
def test_an_answer_is_corrected_once_over_any_number_of_lives(steps: list[Step], fits: bool, ends: list[End]) -> None:
    async def tell(path: str) -> None:
        script = Script([*steps, Step("just words"), Step('{"result": {"n": 1}}' if fits else "words again")])
        story = Story(script, result_schema={"required": ["n"]})
        await story.live(Path(path), ends)
        record = story.record
        assert record is not None
        notices = [part["data"] for part in story.reply if part["type"] == "data-notice"]
        if story.barren >= MOST_LIVES:
            assert record.error_code == "interrupted"
            assert len(notices) <= 1
        else:
            end = ("complete", None) if fits else ("failed", "invalid_result")
            assert (record.status, record.error_code) == end
            assert [notice["reason"] for notice in notices] == ["invalid_result"]
        for request in script.requests:
            told = sum(b"was not accepted" in message for message in request)
            assert told == any(b"just words" in message for message in request)

    with TemporaryDirectory() as path:
        run(tell(path))


def check(story: Story) -> None:
    script, record = story.script, story.record
    assert record is not None
    begun = Counter(script.ran)
    assert all(times == 1 for (name, _), times in begun.items() if name == "put"), begun
    counts = {"prompt_tokens": SPENT.input, "completion_tokens": SPENT.output, "cache_read": SPENT.cache_read}
    assert record.usage == story.total
    assert story.sums == {
        "prompt_tokens": story.total.input,
        "completion_tokens": story.total.output,
        "cache_read": story.total.cache_read,
        "total_tokens": story.total.total,
    }
    if story.barren >= MOST_LIVES:
        assert (record.status, record.error_code) == ("failed", "interrupted")
        return
    assert (record.status, record.error_code) == ("complete", None), record
    assert record.result == {"text": "the answer is 3 "}
    assert record.attempts == 1
    assert all(times <= 1 + story.crashes for times in script.completed.values())
    if not story.crashes:
        assert set(script.completed.values()) == {1}
    assert story.sums["prompt_tokens"] == counts["prompt_tokens"] * len(script.steps)
    found = calls_of(story.reply)
    closed = [part for part in story.reply if part.get("state") in ("streaming", "input-streaming", "input-available")]
    assert not closed
    for number, step in enumerate(script.steps):
        for index, (name, fails) in enumerate(step.calls):
            _check_call(script, found, f"call-{number}-{index}", name, fails=fails)
    for earlier, later in itertools.pairwise(script.requests):
        assert later[: len(earlier)] == earlier, "a request was not an extension of the one before"


def _check_call(script: Script, found: dict[str, Any], call_id: str, name: str, *, fails: bool) -> None:
    """The one answer that counts is the true one. The provider's id may have been used by a model call that broke
    off; then the call has another name here."""
    mine = [part for known, part in found.items() if known == call_id or known.startswith(call_id + "_")]
    last = mine[-1]
    if last["state"] == "output-available":
        assert not fails
        assert last["toolCallId"] in script.finished
    elif "outcome unknown" in last["errorText"]:
        assert name == "put", "what does no harm twice is run again"
    else:
        assert fails
        assert last["errorText"] == "it does not work"


async def _lives(folder: Path, script: Script, ends: list[End]) -> Story:
    story = Story(script)
    await story.live(folder, ends)
    return story


@pytest.mark.parametrize("how", ["drain", "crash"])
def test_three_lives_without_a_step_are_enough(tmp_path: Path, how: Any) -> None:
    async def tell() -> None:
        script = Script([Step("one two three"), Step("never")])
        story = await _lives(tmp_path, script, [End(1, how, saved=True)] * 3)
        assert story.record is not None
        assert (story.record.status, story.record.error_code) == ("failed", "interrupted")
        assert len(script.requests) == 3

    run(tell())


@pytest.mark.parametrize("how", ["drain", "crash"])
def test_a_life_that_has_made_a_step_is_not_one_of_the_three(tmp_path: Path, how: Any) -> None:
    async def tell() -> None:
        script = Script([Step("", (("look", False),)), Step("the answer is 3")])
        first = End(5, how, saved=True)  # one call, one tool, one piece of the next answer
        story = await _lives(tmp_path, script, [first, *[End(1, how, saved=True)] * 2])
        assert (story.steps, story.barren) == (1, 2)
        assert story.record is not None
        assert story.record.status == "complete"

    run(tell())


def test_a_call_that_a_crash_interrupts_is_repeated_under_its_id(tmp_path: Path) -> None:
    async def tell() -> None:
        script = Script([Step("", (("look", False),)), Step("", (("set", False),)), Step("the answer is 3")])
        await _lives(tmp_path, script, [End(6, "crash")])  # as soon as the second call has begun
        assert set(script.completed.values()) == {1}, "no answer of the model was lost"
        assert script.ran[1:] == [("set", "call-1-0")] * 2

    run(tell())


def test_the_deadline_counts_on_while_nobody_lives(tmp_path: Path) -> None:
    async def tell() -> None:
        script = Script([Step("", (("look", False),)), Step("never")])
        life = Life(script, tmp_path, End(4, "drain"))
        async with life.world as it:
            assigned = await it.tasks.assign(assignment(timeout=100), "operator")
            assert assigned.turn is not None
            life.world.clock.advance(40)
            await asyncio.wait_for(life.over.wait(), PATIENCE)
        clock = life.world.clock
        clock.advance(61)
        asked = len(script.requests)
        life = Life(script, tmp_path, None, clock=clock)
        async with life.world as it:
            turn = await it.tasks.turn("task-1", "operator")
            if turn is not None:
                await it.ended(turn)
            record = await it.tasks.record("task-1", "operator")
            assert (record.status, record.error_code, record.limit) == ("timeout", "deadline_exceeded", "deadline")
            assert record.duration_ms >= 101_000
            assert len(script.requests) == asked

    run(tell())


def test_an_answer_that_is_on_disk_is_not_asked_for_again(tmp_path: Path) -> None:
    """The runtime died between the last word and the end."""

    async def tell() -> None:
        script = Script([Step("", (("put", False),)), Step("the answer is 3")])
        life = Life(script, tmp_path, None)
        async with life.world as it:
            turn = (await it.tasks.assign(assignment(), "operator")).turn
            assert turn is not None
            await it.ended(turn)
            first = await stored(it, turn)
            (row,) = await it.rows("SELECT record_json FROM tasks")
            record = {**json.loads(row[0]), "status": "running", "result": None, "finished_at": None}
            metadata = {key: first.metadata[key] for key in first.metadata.keys() - {"outcome", "finish_reason"}}

            def unsettle(connection: Any) -> None:
                connection.execute("UPDATE turns SET state = 'running', outcome_json = NULL")
                connection.execute("UPDATE tasks SET record_json = ?, finished_at = NULL", (json.dumps(record),))
                values = (json.dumps(metadata), turn.request.reply_id)
                connection.execute("UPDATE chat_messages SET metadata_json = ? WHERE id = ?", values)

            await it.database.write(unsettle, durable=True)
        asked = len(script.requests)
        life = Life(script, tmp_path, None)
        async with life.world as it:
            resumed = await it.tasks.turn("task-1", "operator")
            if resumed is not None:
                await it.ended(resumed)
            done = await it.tasks.record("task-1", "operator")
            assert (done.status, done.result) == ("complete", {"text": "the answer is 3 "})
            assert done.usage == SPENT.plus(SPENT)
            assert len(script.requests) == asked
            assert script.ran == [("put", "call-0-0")]
            assert shown((await stored(it, turn)).parts) == shown(first.parts)

    run(tell())


ONCE_MORE = call(("c", "echo", '{"a": 1}'))
BROKEN = call(("c", "echo", "{"))


@pytest.mark.parametrize(
    ("before", "after", "limit"),
    [
        ([ONCE_MORE] * (STOP_AT - 1), [ONCE_MORE], "repeats"),
        ([ONCE_MORE] * STOP_AT, [], "repeats"),
        ([ONCE_MORE] * (STOP_AT - 2), [ONCE_MORE], None),
        ([BROKEN], [BROKEN], "invalid_calls"),
        ([BROKEN, ONCE_MORE], [BROKEN], None),
    ],
)
async def test_a_model_that_repeats_itself_is_stopped_over_a_restart_too(
    tmp_path: Path, before: list[Any], after: list[Any], limit: str | None
) -> None:
    model = FakeModel([*before, [asyncio.Event().wait()]])
    async with World(tmp_path, model) as it:
        await it.tasks.assign(assignment(), "operator")
        await until(lambda: len(model.requests) == len(before) + 1)
    model = FakeModel([*after, say("I give up")])
    async with World(tmp_path, model) as it:
        resumed = await it.tasks.turn("task-1", "operator")
        assert resumed is not None
        await it.ended(resumed)
        record = await it.tasks.record("task-1", "operator")
    assert (record.status, record.limit) == ("complete", limit)
    assert model.requests[-1][0].tool_choice == ("none" if limit else "auto")


async def test_what_an_interrupted_call_has_begun_elsewhere_ends_with_its_turn(tmp_path: Path) -> None:
    begun, withdrawn = asyncio.Event(), list[tuple[str, Mapping[str, Any]]]()

    async def ask(arguments: Mapping[str, Any], context: ToolContext) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def withdraw(arguments: Mapping[str, Any], context: ToolContext) -> None:
        withdrawn.append((context.call_id, arguments))

    def life(slots: int) -> World:
        model = FakeModel([call(("c1", "ask", '{"to": "bob"}'))])
        tools = ToolRegistry([Tool(spec("ask", idempotent=True), ask, withdraw=withdraw)])
        return World(tmp_path, model, catalog=tools, slots=slots)

    async with life(1) as it:
        await it.tasks.assign(assignment(), "operator")
        await begun.wait()
    assert withdrawn == [], "the next process makes the call again"
    begun.clear()
    async with life(0) as it:  # the task has no slot, so that it does not get as far
        assert (await it.tasks.cancel("task-1", "operator")).status == "cancelled"
    assert withdrawn == [("c1", {"to": "bob"})]
    assert not begun.is_set()


@pytest.mark.parametrize("again", [False, True])
async def test_a_queue_that_pauses_after_a_failure_does_so_over_a_restart(tmp_path: Path, again: bool) -> None:
    gate = asyncio.Event()
    model = FakeModel([[gate.wait(), ModelError("down")], [asyncio.Event().wait()]])
    async with World(tmp_path, model, slots=1) as it:
        failing = await it.send("one")
        waiting = [await it.send("two"), await it.send("else", session="other")]
        it.clock.advance(1)
        gate.set()
        await it.ended(failing)
        await until(lambda: len(model.requests) == 2)  # the other session has the slot
        it.clock.advance(1)
        if again:
            waiting.append(await it.send("three"))
    gate = asyncio.Event()
    model = FakeModel([[gate.wait(), *say("done")]])
    async with World(tmp_path, model, clock=it.clock) as it:
        turns = it.admission.queues.turns
        assert [turn.message_id for turn in turns("running")] == ([waiting[0].message_id] if again else [])
        assert (await it.sessions().get("operator", failing.session.id)).status.state == ("busy" if again else "error")
        gate.set()
        await it.ended(await it.send("go on"))
    texts = [json.loads(messages[-1])["content"].partition("\n")[0] for _, messages in model.requests]
    assert texts == (["two", "three", "go on"] if again else ["two", "go on"])
