"""Compacting conversations: while a turn is at work in one, and when somebody asks for it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agent_common.protocol import CompactionPolicy, CompactReply

from ...context import (
    CompactionHistory,
    ContextUsage,
    ContextWindow,
    CurrentTurn,
    TokenCalibrations,
    View,
    cut_all,
    read_view,
)
from ...errors import Conflict, ModelError, NotReady
from ...ports import Memory
from ...sessions import Marker, MessageRow, Recorder, history, listing, markers, past_steps
from ..core.live_sessions import LiveSession
from ..core.turn_state import Turn
from ..notes.memory import NullMemory, durable_facts
from ..scheduling.runner import TurnRunner
from ..turn.context_budget import AutoCompaction, CompactionDeps, ContextBudget, ObserveOnly
from ..turn.summary_strategies import FallbackSummarizer, NoSummary, Summary
from .agent import AGENT, SummarizerAgent, SummarizerModels

SECONDS = 600.0
"""For all calls of the model that one summary takes."""
BYTES_PER_TOKEN = 3
"""Rather too few: a window that seems too small is passed over for a larger one."""

SumUp = Callable[[Sequence[bytes], int], Awaitable[Summary]]
Keep = Callable[[Marker, Summary], Awaitable[tuple[str, View]]]


@dataclass(slots=True)
class CompactionService:
    """Fills runner.Rooms. `attach` it before the first turn runs."""

    cast: SummarizerModels
    policy: CompactionPolicy
    memory: Memory = field(default_factory=NullMemory)
    meters: TokenCalibrations = field(init=False)
    _asked_for: set[asyncio.Timeout] = field(default_factory=set[asyncio.Timeout])
    """How long those are waited for that somebody has asked for."""
    _runner: TurnRunner = field(init=False)

    def __post_init__(self) -> None:
        self.meters = TokenCalibrations(self.cast.behind)

    def attach(self, runner: TurnRunner) -> None:
        self._runner = runner

    def window(self, model: str) -> ContextWindow:
        """That model's window, as far as is known: the model may have told of it when it refused a request."""
        return self.cast.windows(model).narrowed(self.meters.of(model).limit)

    def usable(self, model: str) -> int:
        """Tokens of that model's window that a conversation may take before it is compacted, as far as is known."""
        return self.window(model).usable

    # -- while a turn is at work

    def room(self, turn: Turn, view: View, recorder: Recorder, prompt: str) -> ContextBudget:
        conversation, own = turn.conversation, CurrentTurn(turn.message_id, turn.reply_id, last=True)

        async def keep(marker: Marker, summary: Summary) -> tuple[str, View]:
            await self._remember(conversation, summary)
            row, part_id = self._row(conversation, summary), self._runner.ids.new("prt")
            await recorder.save(lambda connection, _: markers.insert(connection, row, part_id, marker))
            after = await self._read(conversation, own)
            after.begin_with(prompt)
            after.add_user(turn.parts, turn.agent, turn.noted, turn.message_id)
            after.add_reply(past_steps(recorder.data()))
            return row.id, after

        conversation.gauge.use(self.meters.of(turn.model))
        if conversation.trials.model != turn.model:
            conversation.trials = CompactionHistory(turn.model)
        return self._watched(turn, view, conversation.gauge, conversation.trials, keep)

    def nested_room(self, turn: Turn, view: View, again: Callable[[Marker], View] | None) -> ContextBudget:
        """Of a turn without rows: its compactions are remembered as long as it runs."""
        gauge = ContextUsage(self.meters.of(turn.model))
        if again is None:
            return ObserveOnly(view, gauge)

        async def keep(marker: Marker, _: Summary) -> tuple[str, View]:
            return self._runner.ids.new("msg"), again(marker)

        return self._watched(turn, view, gauge, CompactionHistory(turn.model), keep)

    def _watched(
        self, turn: Turn, view: View, gauge: ContextUsage, trials: CompactionHistory, keep: Keep
    ) -> ContextBudget:
        windows = partial(self.cast.windows, turn.model)
        sum_up = self._summing_up(turn.conversation, turn.model, trials, turn)
        switched = turn.model != turn.conversation.model
        return AutoCompaction(CompactionDeps(view, gauge, windows, self.policy, sum_up, keep, trials, switched))

    # -- when somebody asks for it

    async def by_hand(self, conversation: LiveSession, name: str) -> CompactReply:
        """Summarize the whole conversation and keep nothing verbatim (docs/compaction.md#asked-for). The caller must
        keep the session from running. Raises Conflict `nothing_to_compact`, ModelError, StoreError, NotReady."""
        patience = asyncio.timeout(None)
        self._asked_for.add(patience)
        try:
            async with patience:
                return await self._by_hand(conversation, name)
        except TimeoutError:
            raise NotReady("the server is shutting down", headers={"Retry-After": "1"}) from None
        finally:
            self._asked_for.discard(patience)

    def drain(self, grace: float) -> None:
        """Whoever waits for a compaction that he asked for does so for so many seconds more."""
        for patience in self._asked_for:
            patience.reschedule(asyncio.get_running_loop().time() + grace)

    async def _by_hand(self, conversation: LiveSession, name: str) -> CompactReply:
        view, last = await self._read_whole(conversation)
        gauge = conversation.gauge
        gauge.use(self.meters.of(conversation.model))
        cut = cut_all(view.places, len(view.messages))
        if cut is None:
            raise Conflict("nothing was said since the last compaction", code="nothing_to_compact")
        before = gauge.occupancy(view.messages)
        around = max(0, conversation.context_tokens - before)  # the tools, as the last call had them
        try:
            sum_up = self._summing_up(conversation, conversation.model, conversation.trials)
            summary = await sum_up([view.messages[at] for at in cut.head], self.window(conversation.model).summary)
        except NoSummary as failure:
            raise ModelError(f"the conversation could not be compacted: {failure}") from failure
        await self._remember(conversation, summary)
        row, part_id = self._row(conversation, summary), self._runner.ids.new("prt")

        def unit(connection: sqlite3.Connection) -> None:
            came = history.shown_behind(connection, conversation.id, last)  # a report of an agent in the background
            marker = Marker(summary.text, summary.tokens, auto=False, tail_start_id=came, spoken_to=view.spoken_to)
            markers.insert(connection, row, part_id, marker)

        conversation.view = None  # whatever becomes of this call: the disk knows from here on
        await self._runner.database.write(unit, durable=True)
        conversation.view = after = await self._read(conversation)
        gauge.reset()
        conversation.trials.not_before = 0
        conversation.context_tokens = gauge.occupancy(after.messages) + around
        counters = self._runner.counters
        counters.model, counters.context_tokens = conversation.model, conversation.context_tokens
        return CompactReply(
            session_id=name,
            message_id=row.id,
            summary=summary.text,
            summary_tokens=summary.tokens,
            tokens_before=before + around,
            tokens_after=conversation.context_tokens,
        )

    # -- helpers

    async def _remember(self, conversation: LiveSession, summary: Summary) -> None:
        """Before what was said goes out of sight. A crash behind it has the next compaction say it again, and memory
        keeps it once."""
        if facts := durable_facts(summary.text):
            await self.memory.keep(facts, principal=conversation.principal, session_id=conversation.id)

    async def _read(self, conversation: LiveSession, own: CurrentTurn | None = None) -> View:
        prompt, agent = conversation.prompt, conversation.agent
        return await self._runner.database.read(
            lambda connection: read_view(connection, conversation.id, prompt, agent, own)
        )

    async def _read_whole(self, conversation: LiveSession) -> tuple[View, tuple[int, str]]:
        """The view as it is on disk, and the place of the last message in it."""

        def unit(connection: sqlite3.Connection) -> tuple[View, tuple[int, str]]:
            with listing.snapshot(connection):
                view = read_view(connection, conversation.id, conversation.prompt, conversation.agent)
                return view, history.last_shown(connection, conversation.id)

        return await self._runner.database.read(unit)

    def _row(self, conversation: LiveSession, summary: Summary) -> MessageRow:
        """The message that a marker is stored as: behind all others."""
        now = conversation.stamp(self._runner.clock.now_ms())
        conversation.stamp(now + 1)  # what is said next comes behind it, also in the same millisecond
        metadata: dict[str, Any] = {
            "compaction": True,
            "agent": AGENT,
            "usage": summary.usage.model_dump(),
            "schema_version": 1,
        }
        if summary.model:
            metadata["model"] = {"provider_id": "mesh", "model_id": summary.model}
        return MessageRow(self._runner.ids.new("msg"), conversation.id, "assistant", metadata, now, now)

    def _summing_up(
        self, conversation: LiveSession, model: str, trials: CompactionHistory, turn: Turn | None = None
    ) -> SumUp:
        async def sum_up(messages: Sequence[bytes], most: int) -> Summary:
            writer = self._writer(messages, most, conversation, model, trials, turn)
            try:
                async with asyncio.timeout(SECONDS):
                    return await FallbackSummarizer(writer, self.policy).sum_up(messages)
            except BaseException as failure:
                if turn is not None and conversation.stored:  # there is no marker to say what it has cost
                    turn.books.take_over(writer.spent)
                if isinstance(failure, TimeoutError):
                    raise NoSummary(f"there was no summary within {SECONDS:g} s") from None
                raise

        return sum_up

    def _writer(
        self, messages: Sequence[bytes], most: int, conversation: LiveSession, model: str, trials: CompactionHistory,
        turn: Turn | None,
    ) -> SummarizerAgent:  # fmt: skip
        """Raises NoSummary where there is nobody who could do it."""
        try:
            return SummarizerAgent(
                *(self._runner, self.cast, conversation, model),
                needed=sum(map(len, messages)) // BYTES_PER_TOKEN,
                most=most,
                meters=self.meters,
                trials=trials,
                retries=self.policy.retry_on_transient,
                parent=turn,
            )
        except ModelError as error:
            raise NoSummary(error.message) from error
