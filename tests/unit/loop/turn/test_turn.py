"""The agent loop alone: limits, failures, and the chunks of its stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from agent_common.protocol import Usage, chunks
from agent_runtime.errors import ModelError
from agent_runtime.loop import TurnLimits, UsageBudget
from agent_runtime.loop.turn.model_call import LEAST_PIECE, MAX_ANSWER_BYTES, _PartialAnswer
from agent_runtime.loop.turn.repeat_guard import STOP_AT, WARN_AT
from agent_runtime.loop.turn.turn import LAST_STEP_TEXT, MISSING_CALL_TEXT
from agent_runtime.mediation import ChannelGate
from agent_runtime.ports import (
    Completion,
    ReasoningPiece,
    Retrying,
    TextPiece,
    ToolCall,
    ToolContext,
    ToolResult,
    ToolSpec,
)
from agent_runtime.sessions import NOTICE, RETRY
from tests.unit.loop.support import MAX_STREAM_BYTES, FakeModel, FakeTools, Played, call, new_turn, play, say, spec

ONE = ("c1", "echo", '{"a": 1}')


def outcome(played: Played) -> tuple[str, str, str | None, str | None]:
    found = played.turn.end.outcome
    assert found is not None
    return found.status, found.finish_reason, found.error_code, found.limit


def of(played: Played, kind: str) -> list[Any]:
    return [chunk for chunk in played.chunks if getattr(chunk, "type", None) == kind]


def limited(**limits: Any) -> Any:
    return new_turn(budget=UsageBudget(TurnLimits(**{**dict[str, Any](steps=10, seconds=60), **limits})))


async def never(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    await asyncio.Event().wait()
    raise AssertionError


async def test_an_answer() -> None:
    played = await play(FakeModel([[ReasoningPiece("hm"), *say("It ", "works.")]]))
    assert played.kinds == [
        *("start", "start-step", "reasoning-start", "reasoning-delta", "reasoning-end"),
        *("text-start", "text-delta", "text-delta", "text-end", "message-metadata", "finish-step", "finish"),
    ]
    assert outcome(played) == ("complete", "stop", None, None)
    assert played.turn.budget.usage == Usage(input=10, output=2)
    assert json.loads(played.view.messages[-1]) == {"role": "assistant", "content": "It works."}


async def test_tools_run_side_by_side_up_to_the_limit_and_each_is_answered() -> None:
    calls = [(f"c{number}", "echo", json.dumps({"n": number})) for number in range(5)]
    started, gate = asyncio.Semaphore(0), asyncio.Event()

    async def slow(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        started.release()
        await gate.wait()
        return ToolResult("output", dict(arguments))

    tools = FakeTools({"echo": slow})
    playing = asyncio.create_task(play(FakeModel([call(*calls, text="Let me see.")]), tools))
    await started.acquire()
    await started.acquire()
    gate.set()
    played = await playing
    assert tools.most_at_once == 2
    assert {chunk.toolCallId for chunk in of(played, "tool-output-available")} == {one for one, _, _ in calls}
    roles = [json.loads(message)["role"] for message in played.view.messages]
    assert roles == ["system", "user", "assistant", *["tool"] * 5, "assistant"]


@pytest.mark.parametrize(
    ("given", "code"),
    [(ModelError("no", code="model_auth"), "model_auth"), (ModelError("gone", transient=True), "model_unavailable")],
)
async def test_a_model_that_fails_ends_the_turn_truthfully(given: ModelError, code: str) -> None:
    played = await play(FakeModel([[TextPiece("half a"), given]]))
    assert outcome(played) == ("failed", "error", code, None)
    assert played.kinds[-5:] == ["text-end", "finish-step", "message-metadata", "error", "finish"]


async def test_a_retry_leaves_the_broken_text_out_of_the_view() -> None:
    broken = [TextPiece("broken "), *call(ONE)[:1], ModelError("dropped", transient=True)]
    played = await play(FakeModel([broken, say("whole")]), turn=limited(retries=1))
    assert outcome(played) == ("complete", "stop", None, None)
    assert [chunk.errorText for chunk in of(played, "tool-input-error")] == ["the model call was interrupted"]
    assert of(played, RETRY)[0].data == {"attempt": 1, "error": "dropped"}
    assert b"broken" not in b"".join(played.view.messages)
    assert played.turn.budget.retries == 1


async def test_retries_are_counted() -> None:
    gone = [ModelError("gone", transient=True)]
    played = await play(FakeModel([gone, gone, say("too late")]), turn=limited(retries=1))
    assert outcome(played) == ("failed", "error", "model_unavailable", None)


@pytest.mark.parametrize(("breaks", "status"), [(2, "complete"), (6, "failed")])
async def test_a_call_that_broke_because_the_host_was_away_is_repeated(breaks: int, status: str) -> None:
    gate = ChannelGate(required=True)
    gate.open()

    async def restart_host() -> None:
        gate.close()
        gate.open()

    gone = ModelError("gone", transient=True)
    broken: list[Any] = [[TextPiece("broken "), restart_host(), gone] for _ in range(breaks)]
    played = await play(FakeModel([*broken, say("whole")]), gate=gate)
    assert outcome(played)[0] == status
    assert played.turn.budget.retries == 0


async def test_a_wait_for_the_model_shows_in_the_stream_and_nowhere_else() -> None:
    played = await play(FakeModel([[Retrying(1, "busy", 0.5), *say("ok")]]))
    (status,) = of(played, "data-status")
    assert status.transient
    assert status.data == {"state": "retrying", "attempt": 1, "message": "busy"}
    assert played.turn.retry.reason is None


async def test_the_last_step_has_no_tools() -> None:
    model = FakeModel([call(ONE), call(("c2", "echo", "{}"), text="so far", stop="tool-calls")])
    played = await play(model, turn=limited(steps=2))
    assert outcome(played) == ("complete", "stop", None, "iterations")
    assert [request.tool_choice for request, _ in model.requests] == ["auto", "none"]
    assert model.requests[0][0].tools == model.requests[1][0].tools is not None
    assert LAST_STEP_TEXT in json.loads(model.requests[1][1][-1])["content"]
    assert [chunk.data["text"] for chunk in of(played, NOTICE)] == [LAST_STEP_TEXT]
    assert "tools are off" in of(played, "tool-input-error")[0].errorText


async def test_repeats_are_warned_of_and_then_stopped() -> None:
    plays = [call((f"c{number}", "echo", '{"a": 1}')) for number in range(STOP_AT)]
    model = FakeModel([*plays, say("I give up")])
    played = await play(model)
    assert outcome(played) == ("complete", "stop", None, "repeats")
    warned = ["warning" in chunk.output["metadata"] for chunk in of(played, "tool-output-available")]
    assert warned == [number >= WARN_AT for number in range(1, STOP_AT + 1)]
    assert model.requests[-1][0].tool_choice == "none"


async def test_other_arguments_or_results_are_no_repeat() -> None:
    plays = [call((f"c{number}", "echo", json.dumps({"n": number}))) for number in range(STOP_AT + 1)]
    played = await play(FakeModel([*plays, say("fine")]))
    assert outcome(played) == ("complete", "stop", None, None)


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", '"text"', '{"a": NaN}'])
async def test_broken_arguments_are_told_once_then_tools_are_off(arguments: str) -> None:
    model = FakeModel([call(("c1", "echo", arguments)), call(("c2", "echo", arguments)), say("as good as I can")])
    tools = FakeTools()
    played = await play(model, tools)
    assert outcome(played) == ("complete", "stop", None, "invalid_calls")
    assert [request.tool_choice for request, _ in model.requests] == ["auto", "auto", "none"]
    assert tools.ran == []
    told = json.loads(model.requests[1][1][-1])
    assert told["role"] == "tool"
    assert "JSON" in told["content"]
    sent = json.loads(model.requests[1][1][-2])["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"invalid_arguments": arguments}


@pytest.mark.parametrize(
    ("arguments", "shown"), [("3", "3"), ("[1]", "[1]"), (json.dumps("x" * 100), f'"{"x" * 79}...')]
)
async def test_arguments_that_are_no_object_are_told_as_they_are(arguments: str, shown: str) -> None:
    played = await play(FakeModel([call(("c1", "echo", arguments)), say("sorry")]))
    told = of(played, "tool-input-error")[0].errorText
    assert told == f"the arguments must be one JSON object, not {shown}: name the parameters"


@pytest.mark.parametrize("again", [call(ONE), say("It is 4."), say("I will read it.", stop="tool-calls")])
async def test_an_answer_that_announces_a_call_without_one_is_asked_once_more(again: Any) -> None:
    model = FakeModel([say("I will read it.", stop="tool-calls"), again])
    played = await play(model)
    assert [chunk.data["text"] for chunk in of(played, NOTICE)] == [MISSING_CALL_TEXT]
    assert MISSING_CALL_TEXT in json.loads(model.requests[1][1][-1])["content"]
    assert len(model.requests) == (3 if again[-1].calls else 2)
    assert outcome(played) == ("complete", "stop", None, None)


@pytest.mark.parametrize(("steps", "tools_off"), [(1, True), (2, False)])
async def test_a_call_is_only_asked_for_where_tools_are_on(steps: int, tools_off: bool) -> None:
    model = FakeModel([say("I will read it.", stop="tool-calls"), say("It is 4.")])
    played = await play(model, turn=limited(steps=steps))
    assert len(model.requests) == (1 if tools_off else 2)
    assert outcome(played)[:3] == ("complete", "stop", None)


async def test_a_good_call_forgives_a_broken_one() -> None:
    plays = [call(("c1", "echo", "{")), call(("c2", "echo", "")), call(("c3", "echo", "{")), say("ok")]
    assert outcome(await play(FakeModel(plays)))[3] is None


async def test_arguments_that_were_cut_off_are_told_as_such() -> None:
    played = await play(FakeModel([call(("c1", "echo", '{"a": "lon'), stop="length"), say("shorter")]))
    assert "cut off" in of(played, "tool-input-error")[0].errorText


@pytest.mark.parametrize("arguments", ["", " \n", "{}", "null", '""'])
async def test_a_call_whose_arguments_had_not_begun_when_the_answer_was_cut_off_does_not_run(arguments: str) -> None:
    tools = FakeTools()
    cut = call(("c1", "echo", ""), ("c2", "echo", arguments), stop="length")
    played = await play(FakeModel([cut, say("shorter")]), tools)
    assert [(refused.toolCallId, "cut off" in refused.errorText) for refused in of(played, "tool-input-error")] == [
        ("c2", True)
    ]
    assert tools.ran == ["c1"]


@pytest.mark.parametrize("spent", [100, 101])
async def test_the_token_budget_ends_the_turn(spent: int) -> None:
    play_one = call(ONE, text="working", usage=Usage(input=spent - 30, output=10))
    model = FakeModel([play_one])
    played = await play(model, turn=limited(tokens=100, tokens_before=20))
    assert outcome(played) == ("failed", "length", "budget_exhausted", "tokens")
    assert played.kinds[-1] == "finish"
    assert len(model.requests) == 1
    answers = [*of(played, "tool-output-available"), *of(played, "tool-output-error")]
    assert [chunk.toolCallId for chunk in answers] == ["c1"]


async def test_an_answer_that_just_fits_the_budget_counts() -> None:
    played = await play(FakeModel([say("ok", usage=Usage(input=99, output=1))]), turn=limited(tokens=100))
    assert outcome(played)[0] == "complete"


async def test_the_cost_budget_ends_the_turn() -> None:
    one = call(ONE, usage=Usage(input=1, cost_usd=0.6))
    played = await play(FakeModel([one, one]), turn=limited(cost_usd=1.0, cost_before=0.5))
    assert outcome(played) == ("failed", "length", "budget_exhausted", "cost")


async def test_the_answer_may_not_be_longer_than_the_budget_leaves() -> None:
    model = FakeModel([call(ONE, usage=Usage(input=400, output=100)), say("ok")])
    await play(model, turn=limited(tokens=9000, max_output=8600))
    assert [request.max_tokens for request, _ in model.requests] == [None, 8500]


async def test_the_deadline_passes_while_the_model_thinks() -> None:
    played = await play(FakeModel([[TextPiece("so "), asyncio.Event().wait()]]), turn=limited(seconds=0.02))
    assert outcome(played) == ("timeout", "other", "deadline_exceeded", "deadline")
    assert played.kinds[-3:] == ["text-end", "finish-step", "finish"]


async def test_the_deadline_passes_while_a_tool_runs() -> None:
    calls = call(ONE, ("c2", "never", "{}"))
    played = await play(FakeModel([calls]), FakeTools({"never": never}), limited(seconds=0.02))
    assert outcome(played)[0] == "timeout"
    assert "deadline" in of(played, "tool-output-error")[-1].errorText


async def test_the_deadline_passes_while_a_retry_waits() -> None:
    gone = [ModelError("gone", transient=True)]
    played = await play(FakeModel([gone] * 9), turn=limited(retries=9, seconds=0.02))
    assert outcome(played)[0] == "timeout"


async def test_a_cancelled_turn_ends_with_an_abort() -> None:
    model, turn = FakeModel([[TextPiece("so "), asyncio.Event().wait()]]), new_turn()
    playing = asyncio.create_task(play(model, turn=turn))
    await model.asked.wait()
    turn.stop("cancelled")
    turn.stop("deadline")
    played = await playing
    assert outcome(played) == ("cancelled", "abort", "cancelled", None)
    assert played.kinds[-3:] == ["finish-step", "message-metadata", "abort"]
    assert of(played, "message-metadata")[-1].messageMetadata["outcome"]["status"] == "cancelled"


async def test_the_end_of_this_life_is_not_the_end_of_a_task() -> None:
    model, turn = FakeModel([[asyncio.Event().wait()]]), new_turn(task_id="t")
    playing = asyncio.create_task(play(model, turn=turn))
    await model.asked.wait()
    turn.stop("shutdown")
    with pytest.raises(asyncio.CancelledError):
        await playing
    assert turn.end.outcome is None


async def test_a_tool_that_is_cancelled_from_within_is_an_error_of_that_tool() -> None:
    async def cancelled(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        raise asyncio.CancelledError

    played = await play(FakeModel([call(ONE), say("never mind")]), FakeTools({"echo": cancelled}))
    assert outcome(played)[0] == "complete"
    assert [chunk.toolCallId for chunk in of(played, "tool-output-error")] == ["c1"]


async def test_a_bug_in_the_runtime_ends_the_turn_truthfully() -> None:
    async def broken(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        raise RuntimeError("a bug")

    played = await play(FakeModel([call(ONE, ("c2", "echo", "{}"))]), FakeTools({"echo": broken}))
    assert outcome(played) == ("failed", "error", "internal_error", None)
    assert {chunk.toolCallId for chunk in of(played, "tool-output-error")} == {"c1", "c2"}
    assert played.kinds[-2:] == ["error", "finish"]
    assert "a bug" not in of(played, "error")[0].errorText


async def test_a_providers_ids_may_repeat_between_steps() -> None:
    played = await play(FakeModel([call(("call_0", "echo", "{}")), call(("call_0", "echo", '{"b": 2}')), say("ok")]))
    assert [chunk.toolCallId for chunk in of(played, "tool-output-available")] == ["call_0", "call_0_2"]


async def test_calls_of_tools_that_are_not_built_in_are_dynamic() -> None:
    class Custom(FakeTools):
        def spec(self, name: str) -> ToolSpec | None:
            return spec(name, source="custom")

    played = await play(FakeModel([call(ONE), say("ok")]), Custom())
    calls = [*of(played, "tool-input-start"), *of(played, "tool-input-available"), *of(played, "tool-output-available")]
    assert [chunk.dynamic for chunk in calls] == [True] * 3


async def test_an_answer_without_text_and_calls_is_an_answer() -> None:
    played = await play(FakeModel([[Completion("length", usage=Usage(input=1))]]))
    assert outcome(played) == ("complete", "length", None, "output")
    assert of(played, "finish")[0].finishReason == "length"
    silent = await play(FakeModel([[Completion("stop", usage=Usage(input=1))]]))
    assert outcome(silent) == ("complete", "stop", None, "empty_answer")


async def test_a_call_that_breaks_off_is_charged() -> None:
    broken = [TextPiece("x" * 40), ModelError("dropped", transient=True)]
    played = await play(FakeModel([broken]))
    assert outcome(played)[:1] == ("failed",)
    assert played.turn.budget.usage.output == 10
    assert played.turn.budget.usage.input > 0


async def test_the_names_of_the_turn_open_its_stream() -> None:
    played = await play(FakeModel(), turn=new_turn(task_id="t", session_name="mine", message_name="client-1"))
    assert played.chunks[0] == chunks.Start(
        messageId="msg_reply", messageMetadata={"session_id": "mine", "message_id": "client-1", "task_id": "t"}
    )


async def test_calls_without_a_completed_stream_are_not_run() -> None:
    tools = FakeTools()
    play_one = [*call(ONE)[:2], ModelError("gone", transient=True)]
    played = await play(FakeModel([play_one]), tools)
    assert tools.ran == []
    assert outcome(played)[0] == "failed"
    assert ToolCall(*ONE).name == "echo"


def test_an_answer_of_many_short_pieces_is_too_long() -> None:
    answer = _PartialAnswer()
    for _ in range(MAX_ANSWER_BYTES // LEAST_PIECE):
        answer.count("x")
    answer.check_size()
    answer.count("")
    with pytest.raises(ModelError, match="is longer than"):
        answer.check_size()


def test_the_bytes_of_an_answer_count_and_not_its_characters() -> None:
    answer = _PartialAnswer()
    answer.count("\U0001f600" * (MAX_ANSWER_BYTES // 4))
    answer.check_size()
    answer.count("x")
    with pytest.raises(ModelError, match="is longer than"):
        answer.check_size()
    assert answer.received_characters == MAX_ANSWER_BYTES // 4 + 1


async def test_a_turn_ends_when_its_stream_takes_too_much_memory() -> None:
    turn = new_turn()
    turn.stream.size = MAX_STREAM_BYTES + 1
    played = await play(FakeModel([say("more")]), turn=turn)
    assert outcome(played)[:2] == ("failed", "error")
