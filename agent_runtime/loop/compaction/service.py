"""Compact conversations, during a turn or on request."""

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
    CurrentTurn,
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
from ..services import LoopServices
from ..turn.context_budget import ContextBudget
from .agent import AGENT_NAME, SummarizerAgent, SummarizerModels
from .auto_compaction import AutoCompaction, CalibrationOnly, CompactionDeps
from .summary_strategies import FallbackSummarizer, NoSummary, Summary

TIMEOUT_SECONDS = 600.0
"""Seconds for all model calls of one summary."""
BYTES_PER_TOKEN = 3
"""Deliberately low: the size is then overestimated, and a larger window is chosen."""

Summarize = Callable[[Sequence[bytes], int], Awaitable[Summary]]
SaveMarker = Callable[[Marker, Summary], Awaitable[tuple[str, View]]]


@dataclass(slots=True)
class CompactionService:
    """Opens the context budgets of turns (`ContextBudgets`), and compacts a session when a person asks for it."""

    services: LoopServices
    models: SummarizerModels
    policy: CompactionPolicy
    memory: Memory = field(default_factory=NullMemory)
    _request_timeouts: set[asyncio.Timeout] = field(default_factory=set[asyncio.Timeout])
    """The deadlines of the compactions that people wait for."""

    # -- during a turn

    def open_budget(self, turn: Turn, view: View, recorder: Recorder, prompt: str) -> ContextBudget:
        session = turn.session
        own = CurrentTurn(turn.message_id, turn.request.reply_id, exclude_later=True)

        async def keep(marker: Marker, summary: Summary) -> tuple[str, View]:
            await self._save_facts(session, summary)
            row = self._row(session, summary)
            part_id = self.services.ids.new("prt")
            await recorder.save(lambda connection, _: markers.insert(connection, row, part_id, marker))
            after = await self._read(session, own)
            after.begin_with(prompt)
            after.add_user(turn.request.parts, turn.request.agent, turn.all_notes, turn.message_id)
            after.add_reply(past_steps(recorder.current_parts()))
            return row.id, after

        session.context_usage.switch_calibration(self.models.windows.calibrations.for_model(turn.model))
        if session.compaction_history.model != turn.model:
            session.compaction_history = CompactionHistory(turn.model)
        return self._auto_compaction(turn, view, session.context_usage, session.compaction_history, keep)

    def open_inline_budget(
        self, turn: Turn, view: View, rebuild_view: Callable[[Marker], View] | None
    ) -> ContextBudget:
        """Open the budget of a turn without rows. Its compactions are kept in memory while it runs."""
        context_usage = ContextUsage(self.models.windows.calibrations.for_model(turn.model))
        if rebuild_view is None:
            return CalibrationOnly(view, context_usage)

        async def keep(marker: Marker, _: Summary) -> tuple[str, View]:
            return self.services.ids.new("msg"), rebuild_view(marker)

        return self._auto_compaction(turn, view, context_usage, CompactionHistory(turn.model), keep)

    def _auto_compaction(
        self, turn: Turn, view: View, context_usage: ContextUsage, history: CompactionHistory, save_marker: SaveMarker
    ) -> ContextBudget:
        windows = partial(self.models.windows.configured, turn.model)
        sum_up = self._build_summarize(turn.session, turn.model, history, turn)
        switched = turn.model != turn.session.model
        return AutoCompaction(
            CompactionDeps(view, context_usage, windows, self.policy, sum_up, save_marker, history, switched)
        )

    # -- on request

    async def compact_on_request(self, session: LiveSession, name: str) -> CompactReply:
        """Summarize the whole conversation and keep nothing verbatim (docs/reference/compaction.md#asked-for).

        The caller must keep the session idle. Raises Conflict `nothing_to_compact`, ModelError, StoreError, NotReady.
        """
        timeout = asyncio.timeout(None)
        self._request_timeouts.add(timeout)
        try:
            async with timeout:
                return await self._compact_on_request(session, name)
        except TimeoutError:
            raise NotReady("the server is shutting down", headers={"Retry-After": "1"}) from None
        finally:
            self._request_timeouts.discard(timeout)

    def drain(self, grace: float) -> None:
        """Give the compactions on request `grace` more seconds."""
        for timeout in self._request_timeouts:
            timeout.reschedule(asyncio.get_running_loop().time() + grace)

    async def _compact_on_request(self, session: LiveSession, name: str) -> CompactReply:
        view, last = await self._read_whole(session)
        context_usage = session.context_usage
        context_usage.switch_calibration(self.models.windows.calibrations.for_model(session.model))
        cut = cut_all(view.cut_points, len(view.messages))
        if cut is None:
            raise Conflict("nothing was said since the last compaction", code="nothing_to_compact")
        before = context_usage.occupancy(view.messages)
        around = max(0, session.context_tokens - before)  # the tools, as the last call had them
        try:
            sum_up = self._build_summarize(session, session.model, session.compaction_history)
            summary = await sum_up(
                [view.messages[at] for at in cut.head], self.models.windows.window(session.model).max_summary
            )
        except NoSummary as failure:
            raise ModelError(f"the conversation could not be compacted: {failure}") from failure
        await self._save_facts(session, summary)
        row = self._row(session, summary)
        part_id = self.services.ids.new("prt")
        skills = view.skills_lost(cut.head.stop)

        def unit(connection: sqlite3.Connection) -> None:
            came = history.first_shown_after(connection, session.id, last)  # e.g. a background agent's report
            marker = Marker(
                summary.text, summary.tokens, auto=False, tail_start_id=came, spoken_to=view.spoken_to, skills=skills
            )
            markers.insert(connection, row, part_id, marker)

        session.view = None  # even if this call is cancelled, the marker may be stored
        await self.services.database.write(unit, durable=True)
        session.view = after = await self._read(session)
        context_usage.reset()
        session.compaction_history.not_before = 0
        session.context_tokens = context_usage.occupancy(after.messages) + around
        counters = self.services.counters
        counters.model = session.model
        counters.context_tokens = session.context_tokens
        return CompactReply(
            session_id=name,
            message_id=row.id,
            summary=summary.text,
            summary_tokens=summary.tokens,
            tokens_before=before + around,
            tokens_after=session.context_tokens,
        )

    # -- helpers

    async def _save_facts(self, session: LiveSession, summary: Summary) -> None:
        """Save durable facts before compacting. After a crash the next compaction saves them again; memory ignores the
        duplicates."""
        if facts := durable_facts(summary.text):
            await self.memory.save_facts(facts, principal=session.principal, session_id=session.id)

    async def _read(self, session: LiveSession, own: CurrentTurn | None = None) -> View:
        prompt = session.own_prompt.prompt
        agent = session.agent
        return await self.services.database.read(
            lambda connection: read_view(connection, session.id, prompt, agent, own)
        )

    async def _read_whole(self, session: LiveSession) -> tuple[View, tuple[int, str]]:
        """Return the view as stored, and the position of its last message."""

        def unit(connection: sqlite3.Connection) -> tuple[View, tuple[int, str]]:
            with listing.read_transaction(connection):
                view = read_view(connection, session.id, session.own_prompt.prompt, session.agent)
                return view, history.last_shown_position(connection, session.id)

        return await self.services.database.read(unit)

    def _row(self, session: LiveSession, summary: Summary) -> MessageRow:
        """Return the message row in which a marker is stored, after all other messages."""
        now = session.next_timestamp(self.services.clock.now_ms())
        session.next_timestamp(now + 1)  # the next message follows it, even in the same millisecond
        metadata: dict[str, Any] = {
            "compaction": True,
            "agent": AGENT_NAME,
            "usage": summary.usage.model_dump(),
            "schema_version": 1,
        }
        if summary.model:
            metadata["model"] = {"provider_id": "mesh", "model_id": summary.model}
        return MessageRow(self.services.ids.new("msg"), session.id, "assistant", metadata, now, now)

    def _build_summarize(
        self, session: LiveSession, model: str, history: CompactionHistory, turn: Turn | None = None
    ) -> Summarize:
        async def sum_up(messages: Sequence[bytes], most: int) -> Summary:
            writer = self._build_summarizer(messages, most, session, model, history, turn)
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    return await FallbackSummarizer(writer, self.policy).summarize(messages)
            except BaseException as failure:
                if turn is not None and session.stored:  # no marker records its cost
                    turn.budget.adopt_helper_usage(writer.total_usage)
                if isinstance(failure, TimeoutError):
                    raise NoSummary(f"there was no summary within {TIMEOUT_SECONDS:g} s") from None
                raise

        return sum_up

    def _build_summarizer(
        self, messages: Sequence[bytes], max_tokens: int, session: LiveSession, model: str, history: CompactionHistory,
        turn: Turn | None,
    ) -> SummarizerAgent:  # fmt: skip
        """Create the summarizer. Raises NoSummary if no agent or model is available."""
        try:
            return SummarizerAgent(
                services=self.services,
                context_budgets=self,
                models=self.models,
                session=session,
                session_model=model,
                needed_tokens=sum(map(len, messages)) // BYTES_PER_TOKEN,
                max_tokens=max_tokens,
                history=history,
                retries=self.policy.retry_on_transient,
                parent=turn,
            )
        except ModelError as error:
            raise NoSummary(error.message) from error
