"""One model call of a turn: turn the answer into chunks and tool calls, and account for its usage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Literal

from agent_common.protocol import Usage
from agent_common.protocol import chunks as c

from ...context import Step, ToolCallRecord, error_envelope, serialize_tools
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
from ..core.pending_requests import QUESTION_TOOL
from ..core.turn_state import Turn
from .chunk_writer import ChunkWriter
from .deps import TurnDeps
from .tool_calls import parse_arguments

CONTEXT_OVERFLOW = "context_overflow"
MAX_RECOVERIES = 3
"""Maximum number of compactions after the provider found one call too long."""
MAX_CHARACTERS = 8 * 1024 * 1024
"""Maximum characters of one answer; a longer one is treated as a provider failure."""


@dataclass(slots=True)
class _PartialAnswer:
    """The received part of one answer."""

    pieces: list[str] = field(default_factory=list[str])
    call_ids: dict[str, str] = field(default_factory=dict[str, str])
    """The provider's call ids -> ours, which are unique in the turn."""
    received_characters: int = 0
    """Characters of text, reasoning and calls."""

    def require_bounded(self) -> None:
        if self.received_characters > MAX_CHARACTERS:
            raise ModelError(f"the model's answer is longer than {MAX_CHARACTERS} characters")


class ModelCall:
    """Calls the model for one turn."""

    def __init__(self, turn: Turn, deps: TurnDeps, writer: ChunkWriter) -> None:
        self.turn, self.deps, self.budget, self.writer = turn, deps, turn.budget, writer
        self.stop_reason: Literal["stop", "length", "content-filter", "tool-calls", "other"] = "stop"
        """Why the last answer ended."""
        self._answer_began = False
        """Whether the failed call had begun to answer."""

    async def ask(self, step: Step, *, tools: bool) -> AsyncIterator[c.Chunk]:
        """Call the model once; repeat after transient failures as often as the turn allows."""
        recoveries = 0
        while True:
            self.budget.check(for_another_call=True)
            await self.deps.side_effect_gate.wait_open()
            async for chunk in self.deps.context_budget.compact_if_needed(self._tools):
                yield chunk
            await self.deps.context_budget.require_fits(self._tools)
            self.budget.check(for_another_call=True)  # a summary is paid for from the same budget
            await self.deps.side_effect_gate.wait_open()
            try:
                await self._price()
                async for chunk in self._stream(step, tools=tools):
                    yield chunk
                return
            except ModelError as error:
                if error.code == CONTEXT_OVERFLOW and recoveries < MAX_RECOVERIES:
                    recoveries += 1
                    async for chunk in self._compact_after_overflow(step, error):
                        yield chunk
                    continue
                if not error.transient or self.budget.retries >= self.budget.limits.retries:
                    raise
                self.budget.retries += 1
                for chunk in self._discard_answer(step, error):
                    yield chunk
                await asyncio.sleep(min(8.0, 0.25 * 2**self.budget.retries))

    async def _price(self) -> None:
        """Refuse a model without a known price if the turn has an explicit cost limit."""
        if self.deps.price_check is None:
            return
        try:
            await self.deps.price_check.require(self.turn.model, self.budget)
        except InvalidRequest as error:
            raise LimitReached(TurnOutcome("failed", "error", error.code, error.message)) from error
        except MeshUnavailable as error:
            raise ModelError(error.message, transient=True) from error

    async def _compact_after_overflow(self, step: Step, error: ModelError) -> AsyncIterator[c.Chunk]:
        """Compact after the provider found the request too long. Raises the error if that is not possible."""
        room = self.deps.context_budget
        room.record_overflow(error)
        async for chunk in room.compact_if_needed(self._tools, forced=True):
            yield chunk
        if not room.compacted:
            raise error
        if self._answer_began:
            for chunk in self._discard_answer(step, error):
                yield chunk

    async def _stream(self, step: Step, *, tools: bool) -> AsyncIterator[c.Chunk]:
        answer, request = _PartialAnswer(), self._request(tools=tools)
        sent = len(request.messages)
        try:
            async for event in self.deps.model.stream(request):
                if isinstance(event, Completion):
                    if event.usage_reported:
                        self.deps.context_budget.record_usage(sent, event.usage)
                    step.text = "".join(answer.pieces)
                    async for chunk in self._finish_call(step, event, answer.call_ids, tools=tools):
                        yield chunk
                else:
                    if isinstance(event, CallStarted):
                        answer.call_ids[event.id] = await self._call_id(event)
                    if not isinstance(event, Retrying):
                        self.turn.retry.reason = self.turn.retry.attempt = None
                    for chunk in self._chunks_of_event(answer, event):
                        yield chunk
                    answer.require_bounded()
        except (ModelError, asyncio.CancelledError):
            self._answer_began = answer.received_characters > 0
            if answer.received_characters:  # an interrupted answer is charged too
                self.budget.spend(Usage.estimated_from_bytes(self.deps.view.size, answer.received_characters))
            raise

    async def _call_id(self, call: CallStarted) -> str:
        """Return the turn's id for a call. Some providers restart their numbering in every turn, and a frontend gives a
        person's answer to the first call with that id, so a question gets an id that is new in the session."""
        call_id = self.writer.call_id(call.id)
        if call.name == QUESTION_TOOL and await self.deps.has_call(call_id):
            call_id = self.writer.call_id(f"call_{self.turn.request.reply_id}")
        return call_id

    def _chunks_of_event(self, answer: _PartialAnswer, event: ModelEvent) -> Iterator[c.Chunk]:
        """Yield the chunks of one event of the model's answer."""
        match event:
            case TextPiece(text):
                answer.pieces.append(text)
                answer.received_characters += len(text)
                yield from self.writer.text(text)
            case ReasoningPiece(text):
                answer.received_characters += len(text)
                yield from self.writer.reasoning(text)
            case CallStarted(call_id, name):
                answer.received_characters += len(name)
                yield from self.writer.call_started(answer.call_ids[call_id], name)
            case CallPiece(call_id, text):
                answer.received_characters += len(text)
                yield c.ToolInputDelta(toolCallId=answer.call_ids[call_id], inputTextDelta=text)
            case Retrying():
                yield self._retrying(event)
            case Completion():
                return

    async def _finish_call(
        self, step: Step, completion: Completion, call_ids: dict[str, str], *, tools: bool
    ) -> AsyncIterator[c.Chunk]:
        """Account for a finished call, and read its tool calls."""
        turn = self.turn
        turn.budget.spend(completion.usage)
        turn.budget.steps += 1
        turn.session.context_tokens = completion.usage.total
        if turn.request.model_chosen_by == "message" and turn.budget.steps == 1:
            turn.session.model = turn.model
        self.stop_reason = completion.stop_reason
        for chunk in self.writer.close_text():
            yield chunk
        for call in completion.calls:
            arguments = await parse_arguments(call, cut_off=completion.stop_reason == "length")
            if not tools:
                arguments = "tools are off: this was the last step"
            call_id = call_ids[call.id]
            if isinstance(arguments, str):
                step.calls.append(_refused(call_id, call.name, call.arguments, arguments))
                if tools:
                    broken = ToolResult("error", error_text=arguments, metadata={"kind": "invalid"})
                    self.deps.learnings.observe(call.name, {}, broken, self.deps.context)
                told = self.writer.call_refused(call_id, call.name, call.arguments, arguments)
            else:
                step.calls.append(ToolCallRecord(call_id, call.name, arguments))
                told = self.writer.call_ready(call_id, call.name, arguments)
            for chunk in told:
                yield chunk
        books = {"usage": turn.budget.usage.model_dump(), **turn.reply_metadata(), STEP_COUNT: turn.budget.steps}
        yield c.MessageMetadata(messageMetadata=books)

    def _request(self, *, tools: bool) -> ModelRequest:
        """Return the request. The forced last step keeps the tools but forbids their use, so that the prefix of the
        prompt stays the same."""
        return ModelRequest(
            model=self.turn.model,
            messages=self.deps.view.messages,
            tools=self._tools,
            tool_choice="auto" if tools else "none",
            max_tokens=self.budget.output_cap(),
            temperature=self.turn.request.temperature,
            attempts=self.budget.limits.attempts,
            session_id=self.turn.session.id,
            message_id=self.turn.message_id,
        )

    @property
    def _tools(self) -> bytes | None:
        return serialize_tools(self.deps.tools.specs)

    def _retrying(self, event: Retrying) -> c.Chunk:
        self.turn.retry.reason, self.turn.retry.attempt = event.message, event.attempt
        status = {"state": "retrying", "attempt": event.attempt, "message": event.message}
        return c.DataChunk(type="data-status", data=status, transient=True)

    def _discard_answer(self, step: Step, error: ModelError) -> Iterator[c.Chunk]:
        yield from self.writer.close_calls("the model call was interrupted")
        step.text = ""
        step.calls.clear()
        yield c.DataChunk(type=RETRY, data={"attempt": self.budget.retries, "error": error.message})


def _refused(call_id: str, name: str, arguments: str, why: str) -> ToolCallRecord:
    return ToolCallRecord(call_id, name, arguments, error_envelope(why))
