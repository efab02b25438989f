"""The one loop: a turn as an async generator of chunks, from the user's message to the finished reply.

Each step calls the model, then runs the tools that it asked for; a step without calls is the answer. Limits,
cancellation and failures leave the loop as exceptions and reach `run_turn`, which ends every turn the same way: it
closes everything that is open, then yields exactly one terminal chunk. A turn that needs a person stops without one. It
is run again from its record after the answer, as is a task that a crash interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from agent_common.protocol import chunks as c
from agent_common.telemetry import logger

from ...context import Step, ToolCallRecord, error_envelope, runtime_message_text, user_message_text
from ...errors import BrokenRecord, ModelError, StoreError
from ...sessions import CALL_ERROR, NOTICE, STEER, TURN_ERROR
from ..core.authority import UnknownAgent
from ..core.limits import INTERNAL_FAILURE, STORE_FAILURE, LimitReached, TurnOutcome
from ..core.turn_state import Turn
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
_LAST_STEP_NOTICE = runtime_message_text(LAST_STEP_TEXT)
_CUT_OFF_LIMITS = {"length": "output", "content-filter": "content_filter"}
"""The provider's reason for cutting an answer off -> the limit reported for the turn."""
_HOST_STOPS = {
    "channel": ("channel_broken", "the channel to the host was broken for too long"),
    "constraints": ("constraints_changed", "the constraints were replaced while it ran"),
}
"""Error code and text of turns that are stopped because of the channel to the host."""
MAX_INVALID_STEPS = 2
"""Consecutive steps with invalid tool calls before tools are switched off; the model is warned at the first."""


async def run_turn(turn: Turn, deps: TurnDeps) -> AsyncIterator[c.Chunk]:
    """Run the turn and yield its chunks. Sets `turn.end.outcome` before the terminal chunk. Raises only a cancellation
    without a recorded reason."""
    loop = _Loop(turn, deps)
    if deps.resume_state.parts is None:
        yield c.Start(messageId=turn.request.reply_id, messageMetadata=turn.public_ids())
    try:
        turn.interruptible = True
        if turn.end.stop_reason is not None:
            raise asyncio.CancelledError
        async for chunk in loop.steps():
            yield chunk
    except _NeedsHuman:
        return
    except asyncio.CancelledError:
        turn.end.outcome = _outcome_of_stop(turn)
    except Exception as error:  # noqa: BLE001  any failure must end the turn properly
        turn.end.outcome = _outcome_of_error(turn, error)
    outcome = turn.end.outcome or TurnOutcome("complete", "stop")
    why = CALL_ERROR if turn.end.stop_reason == "shutdown" else outcome.error or "the turn ended"
    for chunk in (*loop.writer.close(why), *_terminal_chunks(turn, outcome)):
        yield chunk


class _Loop:
    """The state of one run of the loop."""

    def __init__(self, turn: Turn, deps: TurnDeps) -> None:
        self.turn, self.deps, self.budget = turn, deps, turn.budget
        self.writer = ChunkWriter(deps.tools.spec, deps.resume_state.recorded_parts)
        self._repeat_guard = RepeatGuard()
        self._tool_call_runner = ToolCallRunner(
            tools=deps.tools,
            repeat_guard=self._repeat_guard,
            writer=self.writer,
            context=deps.context,
            authority=deps.authority,
            side_effect_gate=deps.side_effect_gate,
            max_parallel=deps.parallel_tools,
            learnings=deps.learnings,
        )
        self._model_call = ModelCall(turn, deps, self.writer)
        self._invalid_steps = 0

    async def steps(self) -> AsyncIterator[c.Chunk]:
        """Run steps until an answer. A resumed turn begins with the open calls of its last recorded step."""
        step, last = self.deps.resume_state.current_step, self.budget.limits.steps
        limit = "iterations" if step is not None and self.budget.steps >= last else None
        if step is not None:
            for chunk in self._fail_orphaned_calls(step):
                yield chunk
        while True:
            if step is None:
                limit = "iterations" if self.budget.steps + 1 >= last else self._tool_stop_limit()
                step = Step()
                for chunk in self.writer.begin_step():
                    yield chunk
                async for chunk in self._model_call.ask(step, tools=limit is None):
                    yield chunk
                unreadable = step.calls and not step.open_calls
                self._invalid_steps = self._invalid_steps + 1 if unreadable else 0
            self.budget.check()
            if limit or not step.calls:
                break
            async for chunk in self._run_tools(step, last_comes_next=self.budget.steps + 1 >= last):
                yield chunk
            step = None
        self.deps.view.add_step(step)
        ended = self._model_call.stop_reason
        reason = "stop" if ended == "tool-calls" else ended
        empty = None if step.text or step.calls else "empty_answer"
        self.turn.end.outcome = TurnOutcome("complete", reason, limit=limit or _CUT_OFF_LIMITS.get(reason) or empty)

    async def _run_tools(self, step: Step, *, last_comes_next: bool) -> AsyncIterator[c.Chunk]:
        """Run the step's calls and close it. The calls are recorded before they take effect, and results before the
        model sees them."""
        ready = step.open_calls
        self.budget.begin_calls(len(ready))
        if any(not self._may_repeat(call) for call in ready):
            await self.deps.checkpoint()
        if ready:
            self.deps.before_tools()
        async for chunk in self._tool_call_runner.run(step, ready):
            yield chunk
        if step.open_calls:
            raise _NeedsHuman
        async for chunk in self._join_steering(step):
            yield chunk
        if (last_comes_next or self._tool_stop_limit()) and _LAST_STEP_NOTICE not in step.notices:
            step.notices.append(_LAST_STEP_NOTICE)
            yield c.DataChunk(type=NOTICE, data={"text": LAST_STEP_TEXT})
        for chunk in self.writer.end_step():
            yield chunk
        await self.deps.save()
        self.deps.view.add_step(step)

    async def _join_steering(self, step: Step) -> AsyncIterator[c.Chunk]:
        """Let the steering messages join the turn."""
        messages = self.deps.steering.claim_messages()
        for message in messages:
            step.notices.append(user_message_text(message.request.parts))
            data = {"message_id": message.request.message_name, "parts": message.request.parts}
            yield c.DataChunk(type=STEER, id=message.message_id, data=data)
        try:
            if messages:
                await self.deps.steering.record_joined(messages)
        except Exception:  # they are queued again, so they must not appear here too
            for message in messages:
                data = {"message_id": message.request.message_name, "parts": list[object]()}
                yield c.DataChunk(type=STEER, id=message.message_id, data=data)
            raise

    def _fail_orphaned_calls(self, step: Step) -> Iterator[c.Chunk]:
        """Fail the calls that were running when a process ended, except those that are safe to repeat."""
        for call in step.open_calls:
            if not call.approved and not self._may_repeat(call):
                call.output = error_envelope(CALL_ERROR)
                yield from self.writer.call_failed(call.id, CALL_ERROR)

    def _may_repeat(self, call: ToolCallRecord) -> bool:
        spec = self.deps.tools.spec(call.name)
        return spec is not None and (spec.read_only or spec.idempotent)

    def _tool_stop_limit(self) -> str | None:
        return (
            "repeats"
            if self._repeat_guard.tripped
            else "invalid_calls"
            if self._invalid_steps >= MAX_INVALID_STEPS
            else None
        )


class _NeedsHuman(Exception):
    """Raised if the step needs a person to continue."""


def _outcome_of_stop(turn: Turn) -> TurnOutcome:
    """Return the outcome of a stopped turn. Raises CancelledError for a cancellation without a reason, and for a task
    at shutdown, because the next process continues it."""
    task = asyncio.current_task()
    goes_on = turn.end.stop_reason == "shutdown" and turn.request.task_id is not None
    if turn.end.stop_reason is None or goes_on or task is None:
        raise asyncio.CancelledError
    task.uncancel()
    if turn.end.stop_reason == "shutdown":
        return TurnOutcome("failed", "error", "interrupted", TURN_ERROR)
    if turn.end.stop_reason == "unanswered":
        return TurnOutcome("timeout", "other", "deadline_exceeded", "no person answered in time", "deadline")
    if turn.end.stop_reason == "deadline":
        text = f"the deadline of {turn.budget.limits.seconds:g} s passed"
        return TurnOutcome("timeout", "other", "deadline_exceeded", text, "deadline")
    if (said := _HOST_STOPS.get(turn.end.stop_reason)) is not None:
        return TurnOutcome("failed", "other", *said, "channel")
    text = "aborted by parent" if turn.end.stop_reason == "caller" else "the turn was cancelled"
    return TurnOutcome("cancelled", "abort", "cancelled", text)


def _outcome_of_error(turn: Turn, error: Exception) -> TurnOutcome:
    """Return the outcome of a turn that a limit or a failure ended."""
    match error:
        case LimitReached():
            return error.outcome
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
    """Yield the terminal chunk, with usage and outcome."""
    turn.end.outcome = outcome
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
