"""The turn loop. Every agent, subagent and summarizer runs on it.

A turn is an async generator of chunks, from the user's message to the finished reply. Each step calls the model, then
runs the tools that it asked for; a step without calls is the answer. Exhausted budgets, stops and failures leave the
loop as exceptions and reach `run_turn`, which closes everything that is open and yields the terminal chunks: Finish, or
Abort, or Error and Finish. A turn that has used its steps, repeats itself or keeps sending invalid calls is asked for a
last answer without tools instead. An answer that the request does not accept is sent back to the model once.

If a call needs a person, the generator ends without a terminal chunk, and the outcome stays None. After the person has
replied, a new `run_turn` continues from the recorded reply; so does a task after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

from agent_common.line_text import first_visible
from agent_common.protocol import chunks as c
from agent_common.protocol import is_object
from agent_common.telemetry import logger

from ...context import Step, ToolCallRecord, error_envelope, runtime_message_text, user_message_text
from ...errors import BrokenRecord, ModelError, StoreError
from ...sessions import CALL_ERROR, INVALID_RESULT, NOTICE, STEER, TURN_ERROR
from ..core.authority import UnknownAgent
from ..core.turn_state import Turn
from ..limits.outcome import HOST_DEADLINE, INTERNAL_FAILURE, STORE_FAILURE, LimitReached, TurnOutcome
from .chunk_writer import ChunkWriter
from .deps import TurnDeps
from .model_call import ModelCall
from .repeat_guard import RepeatGuard
from .tool_calls import ToolCallRunner

log = logger(__name__)

LAST_STEP_TEXT = (
    "This is the last step you have. Give your final answer now, from what you know; "
    "say plainly what is not finished. Tools are off."
)
REJECTED_TEXT = "The answer was not accepted: {fault}. Give the whole answer again; there is no further attempt."
MISSING_CALL_TEXT = (
    "Your answer ended as one does that calls a tool, but no call came with it. Call the tool now, or give the whole "
    "answer again."
)
_MISSING_CALL_NOTICE = runtime_message_text(MISSING_CALL_TEXT)
_LAST_STEP_NOTICE = runtime_message_text(LAST_STEP_TEXT)
_LIMIT_OF_ANSWER_END = {"length": "output", "content-filter": "content_filter"}
"""Why the provider cut an answer off -> the limit reported for the turn."""
_HOST_STOPS = {
    "channel": ("channel_broken", "the channel to the host was broken for too long"),
    "constraints": ("constraints_changed", "the constraints were replaced while it ran"),
}
"""Error code and text of turns that are stopped because of the channel to the host."""
MAX_INVALID_STEPS = 2
"""After this many steps in a row in which every tool call was invalid, the next step is asked without tools. The model
reads an error for each invalid call."""


async def run_turn(turn: Turn, deps: TurnDeps) -> AsyncIterator[c.Chunk]:
    """Run the turn and yield its chunks. Sets `turn.end.outcome` before the terminal chunks.

    The caller must record each chunk before it asks for the next one: `deps.recorder` saves what was yielded so far.
    Raises CancelledError for a cancellation without a reason, and for a task that a shutdown stops: such a turn stays
    open for the next process.
    """
    loop = _Loop(turn, deps)
    if deps.resume_state.parts is None:  # the turn is new
        yield c.Start(messageId=turn.request.reply_id, messageMetadata=turn.public_ids())
    try:
        turn.interruptible = True
        if turn.end.stop_reason is not None:  # it was stopped before there was a task to cancel
            raise asyncio.CancelledError
        async for chunk in loop.steps():
            yield chunk
    except _NeedsHuman:
        return
    except asyncio.CancelledError:
        turn.end.outcome = _outcome_of_stop(turn)
        if turn.was_aborted():
            await loop.withdraw_calls()
    except Exception as error:  # noqa: BLE001  any failure must end the turn properly
        turn.end.outcome = _outcome_of_error(turn, error)
    turn.retry.clear()
    outcome = turn.end.outcome
    assert outcome is not None  # noqa: S101  `steps` sets it
    open_call_error = CALL_ERROR if turn.end.stop_reason == "shutdown" else outcome.error or "the turn ended"
    for chunk in (*loop.writer.close(open_call_error), *_terminal_chunks(turn, outcome)):
        yield chunk


class _Loop:
    """Runs the steps of one turn, and holds what is forgotten when the turn pauses."""

    def __init__(self, turn: Turn, deps: TurnDeps) -> None:
        self.turn = turn
        self.deps = deps
        self.budget = turn.budget
        self.writer = ChunkWriter(deps.tools.spec, deps.resume_state.recorded_parts)
        self._repeat_guard = RepeatGuard()
        self._tool_call_runner = ToolCallRunner(turn, deps, self.writer, self._repeat_guard)
        self._model_call = ModelCall(turn, deps, self.writer)
        self._invalid_steps = 0
        self._answer_rejected = self._asked_for_call = False
        for step in deps.resume_state.past_steps:
            self._restore_counts(step)

    async def steps(self) -> AsyncIterator[c.Chunk]:
        """Run steps until an answer. A resumed turn begins with the open calls of its last recorded step."""
        step = self.deps.resume_state.current_step
        tools_off_because = self._why_asked_without_tools(step)
        if step is not None:
            self._restore_counts(step)
            for chunk in self._fail_orphaned_calls(step):
                yield chunk
        while True:
            if step is None:
                tools_off_because = "iterations" if self._next_step_is_last else self._reason_to_stop_tools()
                step = Step()
                async for chunk in self._ask(step, tools_allowed=tools_off_because is None):
                    yield chunk
            self.budget.check()
            if step.calls and not tools_off_because:
                rest = self._run_tools(step)
            elif tools_off_because is None and self._call_is_missing(step):
                rest = self._ask_for_call(step)
            else:
                fault = await self._answer_fault(step)
                if fault is None or not self._may_answer_again(step):
                    break
                rest = self._reject_answer(step, fault)
            async for chunk in rest:
                yield chunk
            step = None
        self.deps.view.add_step(step)
        self.turn.end.outcome = self._outcome_of_answer(step, tools_off_because, fault)

    async def _ask(self, step: Step, *, tools_allowed: bool) -> AsyncIterator[c.Chunk]:
        """Begin a step and get the model's answer."""
        for chunk in self.writer.begin_step():
            yield chunk
        async for chunk in self._model_call.ask(step, tools_allowed=tools_allowed):
            yield chunk
        self._count_invalid_step(step)

    def _outcome_of_answer(self, step: Step, tools_off_because: str | None, fault: str | None) -> TurnOutcome:
        answer_end = self._model_call.answer_end
        # It asked for tools although they were off, or announced a call twice that did not come.
        reason = "stop" if answer_end == "tool-calls" else answer_end
        limit = tools_off_because or _LIMIT_OF_ANSWER_END.get(reason)
        if limit is None and first_visible(step.text) is None and not step.calls:
            limit = "empty_answer"
        if fault is not None:
            return TurnOutcome("failed", "error", INVALID_RESULT, f"the answer was not accepted: {fault}", limit)
        return TurnOutcome("complete", reason, limit=limit)

    def _call_is_missing(self, step: Step) -> bool:
        """Return whether the answer only announces a call, and the model may be asked for it: once in a turn."""
        if _MISSING_CALL_NOTICE in step.notices:  # of an interrupted step
            return True
        announced = self._model_call.answer_end == "tool-calls" and first_visible(step.text) is not None
        return announced and not self._asked_for_call and self.budget.steps < self.budget.limits.steps

    async def _ask_for_call(self, step: Step) -> AsyncIterator[c.Chunk]:
        """Tell the model that its call has not come, and close the step."""
        self._asked_for_call = True
        if _MISSING_CALL_NOTICE not in step.notices:
            step.notices.append(_MISSING_CALL_NOTICE)
            yield c.DataChunk(type=NOTICE, data={"text": MISSING_CALL_TEXT})
        async for chunk in self._finish_step(step):
            yield chunk

    async def _answer_fault(self, step: Step) -> str | None:
        """Return why the request does not accept the answer; None if it does."""
        check = self.turn.request.check_answer
        return await check(step.text) if check is not None else None

    def _may_answer_again(self, step: Step) -> bool:
        """Return whether the model may replace its answer: once, and within the steps of the turn."""
        steps_left = self.budget.steps < self.budget.limits.steps
        return steps_left and (step.rejected or not self._answer_rejected)

    async def _reject_answer(self, step: Step, fault: str) -> AsyncIterator[c.Chunk]:
        """Send the answer back to the model with what is wrong, and close the step."""
        self._answer_rejected = True
        if not step.rejected:  # an interrupted step may be already
            step.rejected = True
            text = REJECTED_TEXT.format(fault=fault)
            step.notices.append(runtime_message_text(text))
            yield c.DataChunk(type=NOTICE, data={"text": text, "reason": INVALID_RESULT})
        async for chunk in self._finish_step(step):
            yield chunk

    def _why_asked_without_tools(self, step: Step | None) -> str | None:
        """Return why the recorded step was asked without tools, so that it is the final one. None if it was not."""
        if step is not None and self.budget.steps >= self.budget.limits.steps:
            return "iterations"
        return None if step is None or step.open_calls else self._reason_to_stop_tools()

    def _restore_counts(self, step: Step) -> None:
        """Count a step that an earlier run of the turn has recorded."""
        self._repeat_guard.restore(step.calls)
        self._answer_rejected = self._answer_rejected or step.rejected
        self._asked_for_call = self._asked_for_call or _MISSING_CALL_NOTICE in step.notices
        self._count_invalid_step(step)

    def _count_invalid_step(self, step: Step) -> None:
        """Count the step if all its calls are invalid: their arguments are the text that the model sent."""
        all_calls_invalid = bool(step.calls) and all(isinstance(call.input, str) for call in step.calls)
        self._invalid_steps = self._invalid_steps + 1 if all_calls_invalid else 0

    async def _run_tools(self, step: Step) -> AsyncIterator[c.Chunk]:
        """Run the open calls of the step, then close it.

        A call that changes anything is on record before any call runs, in a resumed turn with the mark that it runs
        again: durably if it may not be repeated, else so that a crash does not lose its id, by which others know it.
        """
        calls = step.open_calls
        self.budget.begin_calls(len(calls))
        if not all(self._is_read_only(call) for call in calls):
            await self.deps.recorder.save(durable=not all(self._may_repeat(call) for call in calls))
        if calls:
            self.deps.prepare_scratch()
        async for chunk in self._tool_call_runner.run(step, calls):
            yield chunk
        if step.open_calls:
            raise _NeedsHuman  # the runner saves the step, and reads the view again when the turn resumes
        async for chunk in self._finish_step(step):
            yield chunk

    async def _finish_step(self, step: Step) -> AsyncIterator[c.Chunk]:
        """Close a step that another one follows. Its record is saved before the next model call."""
        async for chunk in self._join_steering(step):
            yield chunk
        tools_will_be_off = self._next_step_is_last or self._reason_to_stop_tools() is not None
        if tools_will_be_off and _LAST_STEP_NOTICE not in step.notices:  # an interrupted step may have it already
            step.notices.append(_LAST_STEP_NOTICE)
            yield c.DataChunk(type=NOTICE, data={"text": LAST_STEP_TEXT})
        for chunk in self.writer.end_step():
            yield chunk
        await self.deps.recorder.save(durable=False)
        self.deps.view.add_step(step)

    async def _join_steering(self, step: Step) -> AsyncIterator[c.Chunk]:
        """Add the waiting steering messages to the step. Their chunks are yielded first, because `record_joined` saves
        them in the transaction that takes the messages out of the queue."""
        joining = self.deps.steering.claim_messages()
        for message in joining:
            step.notices.append(user_message_text(message.request.parts))
            yield _steering_chunk(message, message.request.parts)
        try:
            if joining:
                await self.deps.steering.record_joined(joining)
        except Exception:  # the messages are back in the queue: chunks without parts replace those above
            for message in joining:
                yield _steering_chunk(message, [])
            raise

    def _fail_orphaned_calls(self, step: Step) -> Iterator[c.Chunk]:
        """Fail the open calls of an interrupted step. Calls that may be repeated run again, and approved calls run for
        the first time."""
        for call in step.open_calls:
            if not call.approved and not self._may_repeat(call):
                call.output = error_envelope(CALL_ERROR)
                yield from self.writer.call_failed(call.id, CALL_ERROR)

    async def withdraw_calls(self) -> None:
        """End elsewhere what the open calls of an interrupted step have begun there in an earlier process: the turn is
        stopped before they have run again, or while they do."""
        step = self.deps.resume_state.current_step
        withdraw = self.deps.tools.toolset.withdraw
        context = self.deps.tool_context
        await asyncio.gather(
            *(
                withdraw(call.name, call.input, replace(context, call_id=call.id))
                for call in (step.open_calls if step is not None else ())
                if is_object(call.input)
            )
        )

    def _may_repeat(self, call: ToolCallRecord) -> bool:
        spec = self.deps.tools.spec(call.name)
        return spec is not None and (spec.read_only or spec.idempotent)

    def _is_read_only(self, call: ToolCallRecord) -> bool:
        spec = self.deps.tools.spec(call.name)
        return spec is not None and spec.read_only

    @property
    def _next_step_is_last(self) -> bool:
        return self.budget.steps + 1 >= self.budget.limits.steps

    def _reason_to_stop_tools(self) -> str | None:
        if self._repeat_guard.stop_tools:
            return "repeats"
        if self._invalid_steps >= MAX_INVALID_STEPS:
            return "invalid_calls"
        return None


class _NeedsHuman(Exception):
    """Raised when calls of the step wait for a person. Ends the generator without an outcome."""


def _steering_chunk(message: Turn, parts: list[dict[str, Any]]) -> c.Chunk:
    data = {"message_id": message.request.message_name, "parts": parts}
    return c.DataChunk(type=STEER, id=message.message_id, data=data)


def _outcome_of_stop(turn: Turn) -> TurnOutcome:
    """Return the outcome of a stopped turn. Raises CancelledError for a cancellation without a reason, and for a task
    at shutdown, because the next process continues it."""
    task = asyncio.current_task()
    continues_in_next_process = turn.end.stop_reason == "shutdown" and turn.request.task_id is not None
    if turn.end.stop_reason is None or continues_in_next_process or task is None:
        raise asyncio.CancelledError
    task.uncancel()  # it goes on, to end the turn properly
    if turn.end.stop_reason == "shutdown":
        return TurnOutcome("failed", "error", "interrupted", TURN_ERROR)
    if turn.end.stop_reason == "unanswered":
        return TurnOutcome("timeout", "other", "deadline_exceeded", "no person answered in time", "deadline")
    if turn.end.stop_reason == "deadline":
        text = f"the deadline of {turn.budget.limits.seconds:g} s passed"
        return TurnOutcome("timeout", "other", "deadline_exceeded", text, "deadline")
    if turn.end.stop_reason == "host_deadline":
        return HOST_DEADLINE
    if (host_stop := _HOST_STOPS.get(turn.end.stop_reason)) is not None:
        code, text = host_stop
        return TurnOutcome("failed", "other", code, text, "channel")
    text = "aborted by parent" if turn.end.stop_reason == "caller" else "the turn was cancelled"
    return TurnOutcome("cancelled", "abort", "cancelled", text)


def _outcome_of_error(turn: Turn, error: Exception) -> TurnOutcome:
    """Return the outcome of a turn that a limit or a failure ended."""
    match error:
        case LimitReached():
            return error.outcome
        case ModelError(code="budget_exhausted"):
            limit = "cost" if (error.limit or "").endswith("_usd") else "tokens"
            return TurnOutcome("failed", "length", error.code, error.message, limit)
        case ModelError():
            return TurnOutcome("failed", "error", error.code, error.message, retry_after=error.retry_after)
        case UnknownAgent():
            return TurnOutcome("failed", "error", "unknown_agent", str(error))
        case BrokenRecord():
            return TurnOutcome("failed", "error", "broken_record", error.message)
        case StoreError():
            log.error("turn failed", message_id=turn.message_id, error=error.message)
            return STORE_FAILURE
        case _:
            log.error("turn failed", message_id=turn.message_id, exc_info=error)
            return INTERNAL_FAILURE


def _terminal_chunks(turn: Turn, outcome: TurnOutcome) -> Iterator[c.Chunk]:
    """Yield the terminal chunks, with usage and outcome."""
    metadata = {
        **turn.reply_metadata(),
        "usage": turn.budget.usage.model_dump(),
        "finish_reason": outcome.finish_reason,
        "outcome": outcome.json(),
    }
    if outcome.limit:
        metadata["limit"] = outcome.limit
    if outcome.finish_reason in ("abort", "error"):  # many clients stop reading after the next chunk
        yield c.MessageMetadata(messageMetadata=metadata)
    if outcome.finish_reason == "abort":
        yield c.Abort(reason=outcome.error)
        return
    if outcome.finish_reason == "error":
        yield c.ErrorChunk(errorText=outcome.error or "the turn failed")
    yield c.Finish(finishReason=outcome.finish_reason, messageMetadata=metadata)
