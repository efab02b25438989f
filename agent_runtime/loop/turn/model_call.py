"""Call the model for a turn: turn its answers into chunks and tool calls, and charge their usage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Literal

from agent_common.backoff import Backoff
from agent_common.completions import AnswerPiece, with_cost
from agent_common.protocol import Usage
from agent_common.protocol import chunks as c

from ...context import (
    Step,
    ToolCallRecord,
    as_provider_metadata,
    call_metadata,
    error_envelope,
    message_metadata,
)
from ...errors import InvalidRequest, MeshUnavailable, ModelError
from ...ports import (
    CallPiece,
    CallStarted,
    Completion,
    ModelRequest,
    ReasoningPiece,
    Retrying,
    TextPiece,
    TextWasReasoning,
    ToolCall,
    ToolResult,
)
from ...sessions import RETRY, STEP_COUNT
from ..core.pending_requests import QUESTION_TOOL
from ..core.turn_state import Turn
from ..limits.outcome import LimitReached, TurnOutcome
from .chunk_writer import ChunkWriter
from .deps import TurnDeps
from .tool_calls import CUT_OFF, parse_arguments

CONTEXT_OVERFLOW = "context_overflow"
MAX_OVERFLOW_COMPACTIONS = 3
"""Compactions per model call after the provider has refused it as too long."""
MAX_HOST_RETURNS = 5
"""How often a model call is repeated because the host was away, for example while it restarted."""
_BACKOFF = Backoff(0.5, 8.0, jitter=0.5)
"""Pauses before a call is made again."""
TEXT_WAS_REASONING = "the text before was the model's reasoning"
MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""Maximum bytes of one answer in UTF-8; a longer one is treated as a provider failure."""
LEAST_PIECE = 16
"""Bytes that a piece of an answer counts at least: each is an event of its own for those who follow the turn."""
CHECK_EVERY = 256 * 1024
"""Bytes by which the stream of a turn grows until it is compared with those of the others again."""

_AnswerEvent = AnswerPiece | Retrying


@dataclass(slots=True)
class _PartialAnswer:
    """The received part of one answer."""

    pieces: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    call_ids: dict[str, str] = field(default_factory=dict[str, str])
    """Tool call ids of the provider -> ids that are unique in this turn."""
    received_characters: int = 0
    """Characters of text, reasoning and tool calls that are not charged yet."""
    size: int = 0
    """Bytes in UTF-8, with a short piece as LEAST_PIECE."""

    def count(self, text: str) -> None:
        self.received_characters += len(text)
        size = len(text) if text.isascii() else len(text.encode(errors="replace"))
        self.size += max(size, LEAST_PIECE)

    def check_size(self) -> None:
        """Raise ModelError if the answer is too long."""
        if self.size > MAX_ANSWER_BYTES:
            raise ModelError(f"the model's answer is longer than {MAX_ANSWER_BYTES} bytes")


class ModelCall:
    """Calls the model for one turn."""

    def __init__(self, turn: Turn, deps: TurnDeps, writer: ChunkWriter) -> None:
        self.turn = turn
        self.deps = deps
        self.budget = turn.budget
        self.writer = writer
        self.answer_end: Literal["stop", "length", "content-filter", "tool-calls", "other"] = "stop"
        """Why the last answer ended."""
        self._answer_began = False
        """Whether the model call that failed had begun to answer."""
        self._host_returns = 0
        """How often the call was repeated because the host was away."""
        self._checked_stream = 0
        """Bytes of the turn's stream when it was last compared with those of the others."""

    async def ask(self, step: Step, *, tools_allowed: bool) -> AsyncIterator[c.Chunk]:
        """Get one answer. Compacts first if the conversation is too long, compacts and repeats if the provider refuses
        the request as too long, and repeats after transient failures: within the turn's retries, or if the host was
        away meanwhile, as the broken channel tells."""
        overflow_compactions = self._host_returns = 0
        while True:
            self.budget.check(for_another_call=True)
            await self.deps.side_effect_gate.wait_open()
            async for chunk in self.deps.context_budget.compact_if_needed(self.deps.tools.schemas):
                yield chunk
            await self.deps.context_budget.require_fits(self.deps.tools.schemas)
            # Compaction may have taken minutes and money, so budget and gate are checked again.
            self.budget.check(for_another_call=True)
            await self.deps.side_effect_gate.wait_open()
            closures = self.deps.side_effect_gate.closures
            try:
                await self._require_price()
                async for chunk in self._stream(step, tools_allowed=tools_allowed):
                    yield chunk
                return
            except ModelError as error:
                if error.code == CONTEXT_OVERFLOW and overflow_compactions < MAX_OVERFLOW_COMPACTIONS:
                    overflow_compactions += 1
                    async for chunk in self._compact_after_overflow(step, error):
                        yield chunk
                    continue
                await self._require_repeatable(error, closures)
                for chunk in self._discard_answer(step, error):
                    yield chunk
                await asyncio.sleep(_BACKOFF.pause(self.budget.retries))

    async def _require_repeatable(self, error: ModelError, closures: int) -> None:
        """Count the repetition of a call that has failed. Raises the error if it may not be repeated.

        `closures`: how often the gate for side effects had closed when the call began."""
        if not error.transient:
            raise error
        away = self._host_returns < MAX_HOST_RETURNS and await self.deps.side_effect_gate.has_closed_since(closures)
        if away:
            self._host_returns += 1
        elif self.budget.retries < self.budget.limits.retries:
            self.budget.retries += 1
        else:
            raise error

    async def _require_price(self) -> None:
        """Refuse a model without a known price if the turn has an explicit cost limit, and go on with no other that has
        answered in its place."""
        if self.deps.services.price_check is None or not self.budget.price_needed:
            return
        try:
            for model in (self.turn.model, *(one["model"] for one in self.turn.fallbacks)):
                await self.deps.services.price_check.require(model, self.budget)
        except InvalidRequest as error:
            raise LimitReached(TurnOutcome("failed", "error", error.code, error.message)) from error
        except MeshUnavailable as error:
            raise ModelError(error.message, transient=True) from error

    async def _compact_after_overflow(self, step: Step, error: ModelError) -> AsyncIterator[c.Chunk]:
        """Compact after the provider found the request too long. Raises the error if that is not possible."""
        self.turn.retry.clear()
        context_budget = self.deps.context_budget
        context_budget.record_overflow(error)
        async for chunk in context_budget.compact_if_needed(self.deps.tools.schemas, forced=True):
            yield chunk
        if not context_budget.compacted:
            raise error
        if self._answer_began:
            for chunk in self._discard_answer(step, error):
                yield chunk

    async def _stream(self, step: Step, *, tools_allowed: bool) -> AsyncIterator[c.Chunk]:
        answer = _PartialAnswer()
        request = self._request(tools_allowed=tools_allowed)
        messages_sent = len(request.messages)
        try:
            async for event in self.deps.services.model.stream(request):
                if isinstance(event, Completion):
                    if event.usage_reported and event.fallback is None:  # another model counts otherwise
                        self.deps.context_budget.record_usage(messages_sent, event.usage)
                    step.text = "".join(answer.pieces)
                    step.reasoning = "".join(answer.reasoning)
                    async for chunk in self._finish_model_call(step, event, answer, tools_allowed=tools_allowed):
                        yield chunk
                else:
                    if isinstance(event, CallStarted):
                        answer.call_ids[event.id] = await self._unique_tool_call_id(event)
                    if not isinstance(event, Retrying):
                        self.turn.retry.clear()
                    for chunk in self._chunks_of_event(answer, event):
                        yield chunk
                    answer.check_size()
                    self._check_stream()
        except (ModelError, asyncio.CancelledError):
            self._answer_began = answer.received_characters > 0
            if answer.received_characters:  # the provider reports no usage for an interrupted answer
                self.budget.spend(self._estimate(answer), cut_off=True)
            raise

    def _check_stream(self) -> None:
        """Raise ModelError if the streams of all turns that run take too much memory, and this one more than its
        share."""
        size = self.turn.stream.size
        if size < self._checked_stream + CHECK_EVERY:
            return
        self._checked_stream = size
        if not self.deps.services.admission.stream_fits(self.turn):
            raise ModelError("the turns that run stream too much at once, this one more than its share")

    def _estimate(self, answer: _PartialAnswer) -> Usage:
        usage = Usage.estimated_from_bytes(self.deps.view.size, answer.received_characters)
        check = self.deps.services.price_check
        return usage if check is None else with_cost(usage, check.model_cards.price(self.turn.model), reported=False)

    async def _unique_tool_call_id(self, call: CallStarted) -> str:
        """Return an id that is unique in the turn. For a question it is unique in the session, because some providers
        number anew in every turn, and a frontend gives a person's reply to the first call with that id."""
        call_id = self.writer.call_id(call.id)
        if call.name == QUESTION_TOOL and await self.deps.session_has_tool_call(call_id):
            call_id = self.writer.call_id(f"call_{self.turn.request.reply_id}")
        return call_id

    def _chunks_of_event(self, answer: _PartialAnswer, event: _AnswerEvent) -> list[c.Chunk]:
        """Return the chunks of one event of the model's answer."""
        match event:
            case TextPiece(text):
                answer.pieces.append(text)
                answer.count(text)
                return self.writer.text(text)
            case ReasoningPiece(text):
                answer.reasoning.append(text)
                answer.count(text)
                return self.writer.reasoning(text)
            case CallStarted(call_id, name):
                answer.count(name)
                return self.writer.call_started(answer.call_ids[call_id], name)
            case CallPiece(call_id, text):
                answer.count(text)
                return [c.ToolInputDelta(toolCallId=answer.call_ids[call_id], inputTextDelta=text)]
            case TextWasReasoning():
                return self._text_was_reasoning(answer)
            case Retrying():
                self.budget.spend(event.usage)
                return [self._retrying(event)]

    def _text_was_reasoning(self, answer: _PartialAnswer) -> list[c.Chunk]:
        """Mark the text so far in the record so that readers leave it out, and say it again as reasoning."""
        text = "".join(answer.pieces).strip()
        answer.pieces.clear()
        answer.reasoning += [text] if text else []
        mark = c.DataChunk(type=RETRY, data={"attempt": self.budget.retries, "error": TEXT_WAS_REASONING})
        return [
            *self.writer.close_text(),
            mark,
            *self.writer.reasoning("".join(answer.reasoning)),
            *self.writer.close_text(),
        ]

    async def _finish_model_call(
        self, step: Step, completion: Completion, answer: _PartialAnswer, *, tools_allowed: bool
    ) -> AsyncIterator[c.Chunk]:
        """Charge a finished model call, and add its tool calls to the step."""
        turn = self.turn
        turn.budget.spend(completion.usage)
        turn.note_answer(completion.fallback, completion.usage)
        answer.received_characters = 0  # they are charged now
        turn.budget.steps += 1
        turn.session.context_tokens = completion.usage.total
        if turn.request.model_chosen_by == "message" and turn.budget.steps == 1:  # a call with its choice has succeeded
            turn.session.model = turn.model
        self.answer_end = completion.stop_reason
        if not completion.calls:  # the part that is open last keeps what concerns the whole message
            step.kept = message_metadata(completion, {})
        for chunk in self.writer.close_text(as_provider_metadata(step.kept)):
            yield chunk
        for call in completion.calls:
            record = await self._record_call(completion, call, answer.call_ids[call.id], tools_allowed=tools_allowed)
            if call is completion.calls[0]:
                record.kept |= message_metadata(completion, record.kept)
            step.calls.append(record)
            for chunk in self._chunks_of_call(record):
                yield chunk
        # With this chunk the model call counts as complete: a resumed turn repeats a call without it.
        metadata = {"usage": turn.budget.usage.model_dump(), **turn.reply_metadata(), STEP_COUNT: turn.budget.steps}
        yield c.MessageMetadata(messageMetadata=metadata)

    async def _record_call(
        self, completion: Completion, call: ToolCall, call_id: str, *, tools_allowed: bool
    ) -> ToolCallRecord:
        """Return the record of a call. One that may not run has its arguments as text, and the error as its output."""
        kept = call_metadata(completion, call, call_id)
        cut_off = completion.stop_reason == "length"
        arguments = await parse_arguments(call, cut_off=cut_off)
        if cut_off and not arguments and call is completion.calls[-1]:  # they had not begun
            arguments = CUT_OFF
        if not tools_allowed:
            arguments = "tools are off: this was the last step"
        if not isinstance(arguments, str):
            return ToolCallRecord(call_id, call.name, arguments, kept=kept)
        if tools_allowed:
            invalid = ToolResult("error", error_text=arguments, metadata={"kind": "invalid"})
            self.deps.services.learnings.observe(call.name, {}, invalid, self.deps.tool_context)
        return ToolCallRecord(call_id, call.name, call.arguments, error_envelope(arguments), kept=kept)

    def _chunks_of_call(self, call: ToolCallRecord) -> list[c.Chunk]:
        metadata = as_provider_metadata(call.kept)
        if call.output is None:
            return self.writer.call_ready(call.id, call.name, call.input, metadata)
        return self.writer.call_refused(call.id, call.name, call.input, call.output["error_text"], metadata)

    def _request(self, *, tools_allowed: bool) -> ModelRequest:
        """Return the request. Without tools allowed it still has the tool list, with `tool_choice` none, so that the
        prefix of the prompt stays the same."""
        session = self.turn.session
        caller = self.turn.request.parent
        return ModelRequest(
            model=self.turn.model,
            messages=self.deps.view.messages,
            fields=self.deps.view.fields,
            turn_start=self.deps.view.turn_start,
            tools=self.deps.tools.schemas,
            tool_choice="auto" if tools_allowed else "none",
            max_tokens=self.budget.output_cap(),
            temperature=self.turn.request.temperature,
            attempts=self.budget.limits.attempts,
            session_id=session.id,
            caller_session_id=caller.session.id if caller is not None else "",
            subagent=self.turn.request.agent if caller is not None else "",
            user=session.principal,
            message_id=self.turn.message_id,
            tool_names=self.deps.tools.names,
        )

    def _retrying(self, event: Retrying) -> c.Chunk:
        self.turn.retry.reason = event.message
        self.turn.retry.attempt = event.attempt
        status = {"state": "retrying", "attempt": event.attempt, "message": event.message}
        return c.DataChunk(type="data-status", data=status, transient=True)

    def _discard_answer(self, step: Step, error: ModelError) -> Iterator[c.Chunk]:
        """Close what the failed answer left open, and mark it in the record so that readers leave it out."""
        yield from self.writer.close_calls("the model call was interrupted")
        step.text = ""
        step.calls.clear()
        yield c.DataChunk(type=RETRY, data={"attempt": self.budget.retries, "error": error.message})
