"""The one loop: a turn as an async generator of chunks, from the user's message to the finished reply.

Each step asks the model, then runs the tools it calls for; a step without calls is the answer. Limits, cancellation
and failures leave the loop as exceptions and meet in `run_turn`, which ends every turn the same way: all that is open
is closed truthfully, then comes exactly one terminal chunk. A turn that needs a person just stops, and is run again
from its record once that person has answered, as is a task that a crash broke off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from agent_common.protocol import chunks as c
from agent_common.telemetry import logger

from ...context import Step, ToolCallRecord, error_envelope, told_by_runtime, told_by_user
from ...errors import BrokenRecord, ModelError, StoreError
from ...sessions import CALL_ERROR, NOTICE, STEER, TURN_ERROR
from ..core.authority import UnknownAgent
from ..core.limits import INTERNAL, UNRECORDED, LimitReached, TurnOutcome
from ..core.turn_state import Turn
from .chunk_writer import ChunkWriter
from .deps import TurnDeps
from .model_call import ModelCall
from .repeat_guard import RepeatGuard
from .tool_calls import ToolCallRunner

log = logger(__name__)

LAST_STEP = (
    "This is the last step you have. Give your final answer now, from what you know; "
    "say plainly what is not finished. Tools are off."
)
_LAST_STEP = told_by_runtime(LAST_STEP)
_CUT = {"length": "output", "content-filter": "content_filter"}
"""Answers that the provider cut off, by its reason."""
_BY_HOST = {
    "channel": ("channel_broken", "the channel to the host was broken for too long"),
    "constraints": ("constraints_changed", "the constraints were replaced while it ran"),
}
"""Error code and text of turns that are stopped for what goes on between this runtime and its host."""
MOST_INVALID = 2
"""Steps in a row with broken tool calls before tools are switched off: the first is told to the model."""


async def run_turn(turn: Turn, kit: TurnDeps) -> AsyncIterator[c.Chunk]:
    """The whole turn. Sets `turn.outcome` before its terminal chunk; raises only an unexplained cancellation."""
    loop = _Loop(turn, kit)
    if kit.progress.parts is None:
        yield c.Start(messageId=turn.reply_id, messageMetadata=turn.names())
    try:
        turn.interruptible = True
        if turn.stop_reason is not None:
            raise asyncio.CancelledError
        async for chunk in loop.steps():
            yield chunk
    except _NeedsHuman:
        return
    except asyncio.CancelledError:
        turn.outcome = _stopped(turn)
    except Exception as error:  # noqa: BLE001  whatever it is, the turn ends truthfully
        turn.outcome = _failed(turn, error)
    outcome = turn.outcome or TurnOutcome("complete", "stop")
    why = CALL_ERROR if turn.stop_reason == "shutdown" else outcome.error or "the turn ended"
    for chunk in (*loop.pen.close(why), *_ending(turn, outcome)):
        yield chunk


class _Loop:
    """The state of one run of the loop."""

    def __init__(self, turn: Turn, kit: TurnDeps) -> None:
        self.turn, self.kit, self.books = turn, kit, turn.books
        self.pen = ChunkWriter(kit.tools.spec, kit.progress.recorded)
        self._guard = RepeatGuard()
        self._runner = ToolCallRunner(
            *(kit.tools, self._guard, self.pen, kit.context, kit.authority, kit.gate),
            parallel=kit.parallel_tools,
            learnings=kit.learnings,
        )
        self._asker = ModelCall(turn, kit, self.pen)
        self._invalid = 0

    async def steps(self) -> AsyncIterator[c.Chunk]:
        """Step after step until an answer. A turn that has run before begins with what its last model call wanted."""
        step, last = self.kit.progress.current, self.books.limits.steps
        limit = "iterations" if step is not None and self.books.steps >= last else None
        if step is not None:
            for chunk in self._orphans(step):
                yield chunk
        while True:
            if step is None:
                limit = "iterations" if self.books.steps + 1 >= last else self._tripped()
                step = Step()
                for chunk in self.pen.begin_step():
                    yield chunk
                async for chunk in self._asker.ask(step, tools=limit is None):
                    yield chunk
                unreadable = step.calls and not step.open
                self._invalid = self._invalid + 1 if unreadable else 0
            self.books.check()
            if limit or not step.calls:
                break
            async for chunk in self._act(step, last_comes_next=self.books.steps + 1 >= last):
                yield chunk
            step = None
        self.kit.view.add_step(step)
        ended = self._asker.stop_reason
        reason = "stop" if ended == "tool-calls" else ended
        empty = None if step.text or step.calls else "empty_answer"
        self.turn.outcome = TurnOutcome("complete", reason, limit=limit or _CUT.get(reason) or empty)

    async def _act(self, step: Step, *, last_comes_next: bool) -> AsyncIterator[c.Chunk]:
        """Runs the step's calls and closes it. Nothing takes effect before it is on disk that it was asked for, and the
        model hears of nothing that a crash could make unsaid."""
        ready = step.open
        self.books.begin_calls(len(ready))
        if any(not self._may_repeat(call) for call in ready):
            await self.kit.checkpoint()
        if ready:
            self.kit.before_tools()
        async for chunk in self._runner.run(step, ready):
            yield chunk
        if step.open:
            raise _NeedsHuman
        async for chunk in self._steered(step):
            yield chunk
        if (last_comes_next or self._tripped()) and _LAST_STEP not in step.notices:
            step.notices.append(_LAST_STEP)
            yield c.DataChunk(type=NOTICE, data={"text": LAST_STEP})
        for chunk in self.pen.end_step():
            yield chunk
        await self.kit.saved()
        self.kit.view.add_step(step)

    async def _steered(self, step: Step) -> AsyncIterator[c.Chunk]:
        """Messages that were sent to steer the turn join it here."""
        messages = self.kit.steering.take()
        for message in messages:
            step.notices.append(told_by_user(message.parts))
            data = {"message_id": message.message_name, "parts": message.parts}
            yield c.DataChunk(type=STEER, id=message.message_id, data=data)
        try:
            if messages:
                await self.kit.steering.delivered(messages)
        except Exception:  # they queue again, so they must not be said here as well
            for message in messages:
                data = {"message_id": message.message_name, "parts": list[object]()}
                yield c.DataChunk(type=STEER, id=message.message_id, data=data)
            raise

    def _orphans(self, step: Step) -> Iterator[c.Chunk]:
        """What becomes of calls that were under way when a life ended: only those that do no harm twice run again."""
        for call in step.open:
            if not call.approved and not self._may_repeat(call):
                call.output = error_envelope(CALL_ERROR)
                yield from self.pen.call_failed(call.id, CALL_ERROR)

    def _may_repeat(self, call: ToolCallRecord) -> bool:
        spec = self.kit.tools.spec(call.name)
        return spec is not None and (spec.read_only or spec.idempotent)

    def _tripped(self) -> str | None:
        return "repeats" if self._guard.tripped else "invalid_calls" if self._invalid >= MOST_INVALID else None


class _NeedsHuman(Exception):
    """The step cannot go on without a person."""


def _stopped(turn: Turn) -> TurnOutcome:
    """The outcome of a turn that was told to stop. A cancellation that nobody explained goes on up, as does the end of
    this life for a task: then the turn is not over."""
    task = asyncio.current_task()
    goes_on = turn.stop_reason == "shutdown" and turn.task_id is not None
    if turn.stop_reason is None or goes_on or task is None:
        raise asyncio.CancelledError
    task.uncancel()
    if turn.stop_reason == "shutdown":
        return TurnOutcome("failed", "error", "interrupted", TURN_ERROR)
    if turn.stop_reason == "unanswered":
        return TurnOutcome("timeout", "other", "deadline_exceeded", "nobody answered in time", "deadline")
    if turn.stop_reason == "deadline":
        text = f"the deadline of {turn.books.limits.seconds:g} s passed"
        return TurnOutcome("timeout", "other", "deadline_exceeded", text, "deadline")
    if (said := _BY_HOST.get(turn.stop_reason)) is not None:
        return TurnOutcome("failed", "other", *said, "channel")
    text = "aborted by parent" if turn.stop_reason == "caller" else "the turn was cancelled"
    return TurnOutcome("cancelled", "abort", "cancelled", text)


def _failed(turn: Turn, error: Exception) -> TurnOutcome:
    """The outcome of a turn that a limit or a failure has ended."""
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
            return UNRECORDED
        case _:
            log.error("turn failed", message_id=turn.message_id, exc_info=error)
            return INTERNAL


def _ending(turn: Turn, outcome: TurnOutcome) -> Iterator[c.Chunk]:
    """The terminal chunk, with the books."""
    turn.outcome = outcome
    books = {
        **turn.about(),
        "usage": turn.books.usage.model_dump(),
        "finish_reason": outcome.finish_reason,
        "outcome": outcome.json(),
    }
    if outcome.limit:
        books["limit"] = outcome.limit
    if outcome.finish_reason in ("abort", "error"):  # many clients read no further than the next chunk
        yield c.MessageMetadata(messageMetadata=books)
    if outcome.finish_reason == "abort":
        yield c.Abort(reason=outcome.error)
        return
    if outcome.finish_reason == "error":
        yield c.ErrorChunk(errorText=outcome.error or "the turn failed")
    yield c.Finish(finishReason=outcome.finish_reason, messageMetadata=books)
