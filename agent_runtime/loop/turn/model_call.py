"""One model call of a turn: what the model says becomes chunks, what it wants calls, and what it cost is booked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Literal

from agent_common.protocol import Usage
from agent_common.protocol import chunks as c

from ...context import Step, ToolCallRecord, error_envelope, lower_tools
from ...errors import InvalidRequest, MeshUnavailable, ModelError
from ...ports import (
    CallPiece,
    CallStarted,
    Completion,
    ModelEvent,
    ModelRequest,
    ReasoningPiece,
    Retrying,
    TextPiece,
    ToolResult,
)
from ...sessions import RETRY, STEP_COUNT
from ..core.limits import LimitReached, TurnOutcome
from ..core.pending_requests import QUESTION
from ..core.turn_state import Turn
from .chunk_writer import ChunkWriter
from .deps import TurnDeps
from .tool_calls import parse

OVERFLOW = "context_overflow"
MOST_RECOVERIES = 3
"""Times that one call is made shorter because the provider found it too long."""
MOST_CHARACTERS = 8 * 1024 * 1024
"""In one answer; whoever sends more is not a model."""


@dataclass(slots=True)
class _Answer:
    """What the model has said so far in one call."""

    pieces: list[str] = field(default_factory=list[str])
    ids: dict[str, str] = field(default_factory=dict[str, str])
    """The provider's call ids -> ours, which are unique in the turn."""
    received: int = 0
    """Characters of all kinds."""

    def check(self) -> None:
        if self.received > MOST_CHARACTERS:
            raise ModelError(f"the model's answer is longer than {MOST_CHARACTERS} characters")


class ModelCall:
    """Asks the model on behalf of one turn."""

    def __init__(self, turn: Turn, kit: TurnDeps, pen: ChunkWriter) -> None:
        self.turn, self.kit, self.books, self.pen = turn, kit, turn.books, pen
        self.stop_reason: Literal["stop", "length", "content-filter", "tool-calls", "other"] = "stop"
        """Why the last answer ended."""
        self._heard_of = False
        """The call that failed had begun to answer."""

    async def ask(self, step: Step, *, tools: bool) -> AsyncIterator[c.Chunk]:
        """One model call, made again after a transient failure as often as the turn allows."""
        recoveries = 0
        while True:
            self.books.check(for_another_call=True)
            await self.kit.gate.passed()
            async for chunk in self.kit.room.make(self._tools):
                yield chunk
            await self.kit.room.require(self._tools)
            self.books.check(for_another_call=True)  # a summary is paid for from the same budget
            await self.kit.gate.passed()
            try:
                await self._price()
                async for chunk in self._stream(step, tools=tools):
                    yield chunk
                return
            except ModelError as error:
                if error.code == OVERFLOW and recoveries < MOST_RECOVERIES:
                    recoveries += 1
                    async for chunk in self._recovered(step, error):
                        yield chunk
                    continue
                if not error.transient or self.books.retries >= self.books.limits.retries:
                    raise
                self.books.retries += 1
                for chunk in self._broke_off(step, error):
                    yield chunk
                await asyncio.sleep(min(8.0, 0.25 * 2**self.books.retries))

    async def _price(self) -> None:
        """Holds an explicit limit on cost against the model that is about to be called."""
        if self.kit.prices is None:
            return
        try:
            await self.kit.prices.require(self.turn.model, self.books)
        except InvalidRequest as error:
            raise LimitReached(TurnOutcome("failed", "error", error.code, error.message)) from error
        except MeshUnavailable as error:
            raise ModelError(error.message, transient=True) from error

    async def _recovered(self, step: Step, error: ModelError) -> AsyncIterator[c.Chunk]:
        """Makes room where the provider says that there is too little. Raises the error when there is none."""
        room = self.kit.room
        room.refused(error)
        async for chunk in room.make(self._tools, forced=True):
            yield chunk
        if not room.made:
            raise error
        if self._heard_of:
            for chunk in self._broke_off(step, error):
                yield chunk

    async def _stream(self, step: Step, *, tools: bool) -> AsyncIterator[c.Chunk]:
        answer, request = _Answer(), self._request(tools=tools)
        sent = len(request.messages)
        try:
            async for event in self.kit.model.stream(request):
                if isinstance(event, Completion):
                    if event.counted:
                        self.kit.room.answered(sent, event.usage)
                    step.text = "".join(answer.pieces)
                    async for chunk in self._completed(step, event, answer.ids, tools=tools):
                        yield chunk
                else:
                    if isinstance(event, CallStarted):
                        answer.ids[event.id] = await self._call_id(event)
                    if not isinstance(event, Retrying):
                        self.turn.retrying = self.turn.attempt = None
                    for chunk in self._heard(answer, event):
                        yield chunk
                    answer.check()
        except (ModelError, asyncio.CancelledError):
            self._heard_of = answer.received > 0
            if answer.received:  # what broke off was generated all the same, and will be charged
                self.books.spend(Usage.estimated(self.kit.view.size, answer.received))
            raise

    async def _call_id(self, call: CallStarted) -> str:
        """The id of a call. Some providers count from one in every turn, and a frontend gives a person's answer to the
        first call of that id in the conversation, so a question gets an id that is new there."""
        call_id = self.pen.call_id(call.id)
        if call.name == QUESTION and await self.kit.has_call(call_id):
            call_id = self.pen.call_id(f"call_{self.turn.reply_id}")
        return call_id

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
                answer.received += len(name)
                yield from self.pen.call_started(answer.ids[call_id], name)
            case CallPiece(call_id, text):
                answer.received += len(text)
                yield c.ToolInputDelta(toolCallId=answer.ids[call_id], inputTextDelta=text)
            case Retrying():
                yield self._retrying(event)
            case Completion():
                return

    async def _completed(
        self, step: Step, completion: Completion, names: dict[str, str], *, tools: bool
    ) -> AsyncIterator[c.Chunk]:
        """Takes the books of a finished call, and its tool calls as far as they can be read."""
        turn = self.turn
        turn.books.spend(completion.usage)
        turn.books.steps += 1
        turn.conversation.context_tokens = completion.usage.total
        if turn.model_by == "message" and turn.books.steps == 1:
            turn.conversation.model = turn.model
        self.stop_reason = completion.stop_reason
        for chunk in self.pen.close_text():
            yield chunk
        for call in completion.calls:
            arguments = await parse(call, cut_off=completion.stop_reason == "length")
            if not tools:
                arguments = "tools are off: this was the last step"
            call_id = names[call.id]
            if isinstance(arguments, str):
                step.calls.append(_refused(call_id, call.name, call.arguments, arguments))
                if tools:
                    broken = ToolResult("error", error_text=arguments, metadata={"kind": "invalid"})
                    self.kit.learnings.observe(call.name, {}, broken, self.kit.context)
                told = self.pen.call_refused(call_id, call.name, call.arguments, arguments)
            else:
                step.calls.append(ToolCallRecord(call_id, call.name, arguments))
                told = self.pen.call_ready(call_id, call.name, arguments)
            for chunk in told:
                yield chunk
        books = {"usage": turn.books.usage.model_dump(), **turn.about(), STEP_COUNT: turn.books.steps}
        yield c.MessageMetadata(messageMetadata=books)

    def _request(self, *, tools: bool) -> ModelRequest:
        """The forced last step keeps the tools and forbids their use, so that the prompt's prefix stays the same."""
        return ModelRequest(
            model=self.turn.model,
            messages=self.kit.view.messages,
            tools=self._tools,
            tool_choice="auto" if tools else "none",
            max_tokens=self.books.output_cap(),
            temperature=self.turn.temperature,
            attempts=self.books.limits.attempts,
            session=self.turn.conversation.id,
            turn=self.turn.message_id,
        )

    @property
    def _tools(self) -> bytes | None:
        return lower_tools(self.kit.tools.specs)

    def _retrying(self, event: Retrying) -> c.Chunk:
        self.turn.retrying, self.turn.attempt = event.message, event.attempt
        status = {"state": "retrying", "attempt": event.attempt, "message": event.message}
        return c.DataChunk(type="data-status", data=status, transient=True)

    def _broke_off(self, step: Step, error: ModelError) -> Iterator[c.Chunk]:
        yield from self.pen.close_calls("the model call broke off")
        step.text = ""
        step.calls.clear()
        yield c.DataChunk(type=RETRY, data={"attempt": self.books.retries, "error": error.message})


def _refused(call_id: str, name: str, arguments: str, why: str) -> ToolCallRecord:
    return ToolCallRecord(call_id, name, arguments, error_envelope(why))
