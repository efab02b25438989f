"""The one loop: a turn as an async generator of chunks, from the user's message to the finished reply.

Each step asks the model, then runs the tools it calls for; a step without calls is the answer. Limits, cancellation
and failures leave the loop as exceptions and meet in `run_turn`, which ends every turn the same way: all that is open
is closed truthfully, then comes exactly one terminal chunk. A turn that needs a person just stops, and is run again
from its record once that person has answered, as is a task that a crash broke off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ..context import Call, Step, View, error_envelope, lower_tools, user_text
from ..errors import ModelError, StoreError
from ..ports import (
    CallPiece,
    CallStarted,
    Completion,
    Model,
    ModelEvent,
    ModelRequest,
    ReasoningPiece,
    Retrying,
    TextPiece,
    ToolContext,
    Toolset,
)
from ..protocol import Usage, is_object
from ..protocol import chunks as c
from ..sessions import CALL_ERROR, NOTICE, RETRY, STEER
from ..telemetry import logger
from .calls import Runner, parse
from .guard import RepeatGuard
from .limits import INTERNAL, LimitReached, Outcome
from .pen import Pen
from .progress import Progress
from .state import Turn

log = logger(__name__)

LAST_STEP = (
    "This is the last step you have. Give your final answer now, from what you know; "
    "say plainly what is not finished. Tools are off."
)
_CUT = {"length": "output", "content-filter": "content_filter"}
"""Answers that the provider cut off, by its reason."""
MOST_CHARACTERS = 8 * 1024 * 1024
"""In one answer; whoever sends more is not a model."""
MOST_INVALID = 2
"""Steps in a row with broken tool calls before tools are switched off: the first is told to the model."""


@dataclass(frozen=True, slots=True)
class Kit:
    """What a turn works with."""

    model: Model
    tools: Toolset
    view: View
    context: ToolContext
    parallel_tools: int
    before_tools: Callable[[], object]
    """Makes ready what tools need; most turns call none and pay nothing for it."""
    checkpoint: Callable[[], Awaitable[None]]
    """Returns once every chunk so far is on disk for good."""
    steering: Steering
    allowed: Set[str] = frozenset()
    """Tools that a person has allowed for the whole session."""
    progress: Progress = field(default_factory=Progress)
    """How far the turn has come before."""


class Steering(Protocol):
    """The messages that want to join the turn."""

    def take(self) -> Sequence[Turn]:
        """Those that wait now; they are the turn's from here on."""
        ...

    async def delivered(self, messages: Sequence[Turn]) -> None:
        """Writes down that they have joined, together with the chunks that say so. Raises StoreError."""
        ...


@dataclass(slots=True)
class _Answer:
    """What the model has said so far in one call."""

    pieces: list[str] = field(default_factory=list[str])
    ids: dict[str, str] = field(default_factory=dict[str, str])
    """The provider's call ids -> ours, which are unique in the turn."""
    received: int = 0
    """Characters of all kinds."""


async def run_turn(turn: Turn, kit: Kit) -> AsyncIterator[c.Chunk]:
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
    outcome = turn.outcome or Outcome("complete", "stop")
    for chunk in (*loop.pen.close(outcome.error or "the turn ended"), *_ending(turn, outcome)):
        yield chunk


class _Loop:
    """The state of one run of the loop."""

    def __init__(self, turn: Turn, kit: Kit) -> None:
        self.turn, self.kit, self.books = turn, kit, turn.books
        self._specs = {spec.name: spec for spec in kit.tools.specs}
        self.pen = Pen(self._specs, kit.progress.recorded)
        self._guard = RepeatGuard()
        self._runner = Runner(kit.tools, self._guard, self.pen, kit.context, kit.allowed, kit.parallel_tools)
        self._definitions = lower_tools(kit.tools.specs)
        self._invalid = 0
        self._stop: Literal["stop", "length", "content-filter", "tool-calls", "other"] = "stop"

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
                async for chunk in self._ask(step, tools=limit is None):
                    yield chunk
            self.books.check()
            if limit or not step.calls:
                break
            async for chunk in self._act(step, last_comes_next=self.books.steps + 1 >= last):
                yield chunk
            step = None
        self.kit.view.add_step(step)
        reason = "stop" if self._stop == "tool-calls" else self._stop
        empty = None if step.text or step.calls else "empty_answer"
        self.turn.outcome = Outcome("complete", reason, limit=limit or _CUT.get(reason) or empty)

    async def _act(self, step: Step, *, last_comes_next: bool) -> AsyncIterator[c.Chunk]:
        """Runs the step's calls and closes it. Nothing takes effect before it is on disk that it was asked for."""
        ready = step.open
        refused = all(is_object(call.output) and call.output.get("type") == "error" for call in step.calls)
        self._invalid = self._invalid + 1 if refused and not ready else 0
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
        if (last_comes_next or self._tripped()) and LAST_STEP not in step.notices:
            step.notices.append(LAST_STEP)
            yield c.DataChunk(type=NOTICE, data={"text": LAST_STEP})
        for chunk in self.pen.end_step():
            yield chunk
        self.kit.view.add_step(step)

    async def _steered(self, step: Step) -> AsyncIterator[c.Chunk]:
        """Messages that were sent to steer the turn join it here."""
        messages = self.kit.steering.take()
        for message in messages:
            step.notices.append(user_text(message.parts))
            data = {"message_id": message.message_name, "parts": message.parts}
            yield c.DataChunk(type=STEER, id=message.message_id, data=data)
        if messages:
            await self.kit.steering.delivered(messages)

    def _orphans(self, step: Step) -> Iterator[c.Chunk]:
        """What becomes of calls that were under way when a life ended: only those that do no harm twice run again."""
        for call in step.open:
            if not call.approved and not self._may_repeat(call):
                call.output = error_envelope(CALL_ERROR)
                yield from self.pen.call_failed(call.id, CALL_ERROR)

    def _may_repeat(self, call: Call) -> bool:
        spec = self._specs.get(call.name)
        return spec is not None and (spec.read_only or spec.idempotent)

    async def _ask(self, step: Step, *, tools: bool) -> AsyncIterator[c.Chunk]:
        """One model call, made again after a transient failure as often as the turn allows."""
        while True:
            self.books.check(for_another_call=True)
            try:
                async for chunk in self._stream(step, tools=tools):
                    yield chunk
                return
            except ModelError as error:
                if not error.transient or self.books.retries >= self.books.limits.retries:
                    raise
                self.books.retries += 1
                for chunk in self._broke_off(step, error):
                    yield chunk
                await asyncio.sleep(min(8.0, 0.25 * 2**self.books.retries))

    async def _stream(self, step: Step, *, tools: bool) -> AsyncIterator[c.Chunk]:
        answer = _Answer()
        try:
            async for event in self.kit.model.stream(self._request(tools=tools)):
                if isinstance(event, Completion):
                    step.text = "".join(answer.pieces)
                    for chunk in self._completed(step, event, answer.ids, tools=tools):
                        yield chunk
                else:
                    for chunk in self._heard(answer, event):
                        yield chunk
                    if answer.received > MOST_CHARACTERS:
                        raise ModelError(f"the model's answer is longer than {MOST_CHARACTERS} characters")
        except (ModelError, asyncio.CancelledError):
            if answer.received:  # what broke off was generated all the same, and will be charged
                self.books.spend(Usage.estimated(self.kit.view.size, answer.received))
            raise

    def _heard(self, answer: _Answer, event: ModelEvent) -> Iterator[c.Chunk]:
        """What a piece of the model's answer looks like in the stream."""
        match event:
            case TextPiece(text):
                answer.pieces.append(text)
                answer.received += len(text)
                yield from self.pen.text(text)
            case ReasoningPiece(text):
                answer.received += len(text)
                yield from self.pen.reasoning(text)
            case CallStarted(call_id, name):
                answer.ids[call_id] = self.pen.call_id(call_id)
                yield from self.pen.call_started(answer.ids[call_id], name)
            case CallPiece(call_id, text):
                answer.received += len(text)
                yield c.ToolInputDelta(toolCallId=answer.ids[call_id], inputTextDelta=text)
            case Retrying():
                yield self._retrying(event)
            case Completion():
                return

    def _completed(
        self, step: Step, completion: Completion, names: dict[str, str], *, tools: bool
    ) -> Iterator[c.Chunk]:
        """Takes the books of a finished call, and its tool calls as far as they can be read."""
        turn = self.turn
        turn.retrying = turn.attempt = None
        turn.books.spend(completion.usage)
        turn.books.steps += 1
        turn.conversation.context_tokens = completion.usage.total
        self._stop = completion.stop_reason
        yield from self.pen.close_text()
        for call in completion.calls:
            arguments = parse(call, cut_off=completion.stop_reason == "length")
            if not tools:
                arguments = "tools are off: this was the last step"
            call_id = names[call.id]
            if isinstance(arguments, str):
                step.calls.append(_refused(call_id, call.name, call.arguments, arguments))
                yield from self.pen.call_refused(call_id, call.name, call.arguments, arguments)
            else:
                step.calls.append(Call(call_id, call.name, arguments))
                yield from self.pen.call_ready(call_id, call.name, arguments)
        yield c.MessageMetadata(
            messageMetadata={
                "usage": turn.books.usage.model_dump(),
                "model": {"provider_id": "mesh", "model_id": turn.model},
                "agent": turn.conversation.agent,
                "system_prompt_digest": turn.conversation.digest,
                "steps": turn.books.steps,
            }
        )

    def _request(self, *, tools: bool) -> ModelRequest:
        """The forced last step keeps the tools and forbids their use, so that the prompt's prefix stays the same."""
        return ModelRequest(
            model=self.turn.model,
            messages=self.kit.view.messages,
            tools=self._definitions,
            tool_choice="auto" if tools else "none",
            max_tokens=self.books.output_cap(),
        )

    def _tripped(self) -> str | None:
        return "repeats" if self._guard.tripped else "invalid_calls" if self._invalid >= MOST_INVALID else None

    def _retrying(self, event: Retrying) -> c.Chunk:
        self.turn.retrying, self.turn.attempt = event.message, event.attempt
        status = {"state": "retrying", "attempt": event.attempt, "message": event.message}
        return c.DataChunk(type="data-status", data=status, transient=True)

    def _broke_off(self, step: Step, error: ModelError) -> Iterator[c.Chunk]:
        yield from self.pen.close_calls("the model call broke off")
        step.text = ""
        step.calls.clear()
        yield c.DataChunk(type=RETRY, data={"attempt": self.books.retries, "error": error.message})


class _NeedsHuman(Exception):
    """The step cannot go on without a person."""


def _refused(call_id: str, name: str, arguments: str, why: str) -> Call:
    return Call(call_id, name, arguments, error_envelope(why))


def _stopped(turn: Turn) -> Outcome:
    """The outcome of a turn that was told to stop. A cancellation that nobody explained, or the end of this life,
    goes on up: then the turn is not over."""
    task = asyncio.current_task()
    if turn.stop_reason in (None, "shutdown") or task is None:
        raise asyncio.CancelledError
    task.uncancel()
    if turn.stop_reason == "unanswered":
        return Outcome("timeout", "other", "deadline_exceeded", "nobody answered in time", "deadline")
    if turn.stop_reason == "deadline":
        text = f"the deadline of {turn.books.limits.seconds:g} s passed"
        return Outcome("timeout", "other", "deadline_exceeded", text, "deadline")
    return Outcome("cancelled", "abort", "cancelled", "the turn was cancelled")


def _failed(turn: Turn, error: Exception) -> Outcome:
    """The outcome of a turn that a limit or a failure has ended."""
    match error:
        case LimitReached():
            return error.outcome
        case ModelError():
            return Outcome("failed", "error", error.code, error.message)
        case StoreError():
            log.error("turn failed", message_id=turn.message_id, error=error.message)
            return Outcome("failed", "error", "store_unavailable", f"nothing can be recorded: {error.message}")
        case _:
            log.error("turn failed", message_id=turn.message_id, exc_info=error)
            return INTERNAL


def _ending(turn: Turn, outcome: Outcome) -> Iterator[c.Chunk]:
    """The terminal chunk, with the books."""
    turn.outcome = outcome
    books = {"usage": turn.books.usage.model_dump(), "finish_reason": outcome.finish_reason, "outcome": outcome.json()}
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
