"""Run subagents on the same loop, with no more authority than their caller.

See docs/reference/agents.md#agents-that-call-agents.

An inspectable or background subagent gets a session of its own; any other runs inside the call and leaves its
transcript in the call's result. No subagent can ask a person.
"""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

from agent_common.owned_tasks import OwnedTasks

from ...agents import AgentDirectory, Manifest
from ...errors import InvalidRequest, MeshUnavailable, TooLarge, ToolFailure
from ...ports import SubagentRequest, ToolContext
from ...sessions import NewTurn, branches, rows, text_of
from ...store import Unit
from ...tools import Output
from ..core.authority import UnknownAgent
from ..core.live_sessions import LiveSession
from ..core.turn_state import Turn, TurnRequest
from ..execution.inline_run import run_inline
from ..limits.budget import UsageBudget
from ..limits.turn_limits import TurnLimits
from ..notes.compose import caller_notes
from ..services import LoopServices
from ..turn.context_budget import ContextBudgets
from .agent_slots import AgentSlots
from .parent_call import ParentCall, fingerprint, report_to_parent
from .transcript import transcript

MAX_DEPTH = 5


class Subagents:
    """Implements `Spawner` (`agent_runtime.ports`). Close it after the last turn has ended."""

    def __init__(
        self,
        services: LoopServices,
        context_budgets: ContextBudgets,
        agents: AgentDirectory,
        *,
        max_concurrent: int,
        limits: TurnLimits,
    ) -> None:
        """`max_concurrent` agents may run at each depth: a caller never waits for the slot that it holds itself."""
        self._services = services
        self._context_budgets = context_budgets
        self._agents = agents
        self._max_concurrent = max_concurrent
        self._limits = limits
        self._slots: dict[int, AgentSlots] = {}
        self._inline_turns: dict[str, Turn] = {}
        self._background = OwnedTasks()

    async def spawn(self, request: SubagentRequest, context: ToolContext) -> Any:
        manifest = self._find(request.agent)  # an unknown agent is refused without waiting for a slot
        caller = self._caller(context)
        await self._check_price(manifest, caller)
        if caller.depth >= MAX_DEPTH:
            raise ToolFailure(f"agents may call each other {MAX_DEPTH} deep; do the work yourself", kind="denied")
        try:
            if request.background:
                return await self._start_background(request, caller, context)
            async with self._slots_at(caller.depth + 1).wait_for_slot(caller.session.principal):
                manifest = self._find(request.agent)
                if manifest.inspectable:
                    return await self._wait_for_result(await self._admit(request, manifest, caller, context))
                return await self._run_inline(request, manifest, caller, context)
        except UnknownAgent as gone:
            raise ToolFailure(str(gone), kind="unavailable") from None

    async def close(self) -> None:
        """Stop watching the background agents. Their turns are recorded."""
        await self._background.close()

    # -- with a session of its own

    async def _admit(self, request: SubagentRequest, manifest: Manifest, caller: Turn, context: ToolContext) -> Turn:
        parent = (caller.session.id, self._recorded_turn(caller).message_id)
        session = self._services.live_sessions.create(caller.session.principal, agent=manifest.name, parent=parent)
        session.outside_text = caller.session.outside_text
        turn = self._turn(request, manifest, caller, session)
        turn.budget.egress.parent = context.egress
        turn.budget.recorded_separately = True
        await self._require_fit(turn)
        try:
            await self._services.admission.admit(turn, lambda admitted: self._unit(request, admitted))
        except asyncio.CancelledError:
            turn.stop("caller")  # it may be admitted all the same, and then ends at once
            raise
        finally:
            self._services.live_sessions.discard_unstored(session)
        return turn

    async def _wait_for_result(self, turn: Turn) -> Any:
        """Wait for the agent's answer. Cancelling the caller stops the agent."""
        try:
            await turn.ended.wait()
        except asyncio.CancelledError:
            turn.stop("caller")
            raise
        return _result(turn, text_of(turn.end.reply_parts), session_id=turn.session.id)

    async def _start_background(self, request: SubagentRequest, caller: Turn, context: ToolContext) -> dict[str, Any]:
        slots = self._slots_at(-caller.depth - 1)  # separate slots: no caller waits for these
        if not slots.take(caller.session.principal):
            raise ToolFailure(
                f"{self._max_concurrent} agents are running already; wait for one of them", kind="unavailable"
            )
        try:
            turn = await self._admit(request, self._find(request.agent), caller, context)
        except BaseException:
            slots.release(caller.session.principal)
            raise
        session = self._recorded_turn(caller).session
        session.use_count += 1  # its rules apply to the agent too, so the session must stay in memory
        watching = self._watch_background(turn, self._recorded_turn(caller), slots)
        self._background.start(watching, f"background {turn.message_id}")
        return {"session_id": turn.session.id}

    async def _watch_background(self, turn: Turn, caller: Turn, slots: AgentSlots) -> None:
        parent_session = caller.session
        try:
            await _wait_for_first(turn.ended, caller.ended)
            if caller.end.stop_reason == "cancelled":  # an abort also stops the background agents of the turn
                turn.stop("caller")
            await turn.ended.wait()
            parent_session.view = None  # it must include the report, so it is read from disk again
            parent_session.next_timestamp(self._services.clock.now_ms() + 1)  # the next message follows the report
        finally:
            parent_session.use_count -= 1
            slots.release(parent_session.principal)

    def _unit(self, request: SubagentRequest, turn: Turn) -> Unit[None]:
        now = turn.sent_ms = turn.session.next_timestamp(self._services.clock.now_ms())
        session = turn.session.new_row(str(self._services.home.workspace))
        parts = tuple((self._services.ids.new("prt"), part) for part in turn.request.parts)
        session_id, message_id = turn.session.parent or ("", "")
        about = ParentCall(session_id, message_id, turn.depth, request.background)
        metadata = {"agent": turn.request.agent, "subagent": about.json()}
        row = NewTurn(
            turn.message_id,
            turn.session.id,
            turn.request.reply_id,
            parts,
            fingerprint(turn.request.parts),
            queued=False,
            metadata=metadata,
        )

        def unit(connection: sqlite3.Connection) -> None:
            rows.insert_session(connection, session, now)
            branches.update_metadata(connection, session.id, {}, dict(request.metadata), now)
            if turn.session.outside_text.seen:  # the caller has written the prompt
                rows.mark_outside_text(connection, session.id)
            rows.insert_turn(connection, row, now)

        return unit

    # -- inside the call

    async def _run_inline(
        self, request: SubagentRequest, manifest: Manifest, caller: Turn, context: ToolContext
    ) -> Output:
        agent_prompt = self._services.live_sessions.draft(manifest, caller.session.principal)
        session = LiveSession(
            id=caller.session.id,
            principal=caller.session.principal,
            agent=manifest.name,
            model=manifest.model or caller.model,
            prompts={manifest.name: agent_prompt},
        )
        turn = self._turn(request, manifest, caller, session)
        turn.notes = caller_notes(turn)
        await self._require_fit(turn)
        turn.budget.egress.parent = context.egress
        self._inline_turns[turn.message_id] = turn
        try:
            parts = await run_inline(turn, self._services, self._context_budgets, context)
        finally:
            del self._inline_turns[turn.message_id]
        metadata = {
            "agent": turn.request.agent,
            "depth": turn.depth,
            "usage": turn.budget.usage.model_dump(),
            "transcript": transcript(parts),
        }
        return Output(_result(turn, text_of(parts)), metadata=metadata)

    # -- helpers

    def _find(self, name: str) -> Manifest:
        found = self._agents.get(name)
        if found is None or not found.for_agents:
            there_are = ", ".join(agent for agent, _ in self._agents.callable_agents()) or "none"
            what = f"is for {found.audience} to choose" if found else "does not exist"
            raise ToolFailure(f"subagent_type: agent {name!r} {what}; there are: {there_are}", kind="invalid")
        return found

    async def _check_price(self, manifest: Manifest, caller: Turn) -> None:
        """Raise ToolFailure if a caller's cost limit does not admit the agent's model."""
        model = manifest.model or caller.model
        try:
            if self._services.price_check is not None:
                await self._services.price_check.require(model, caller.budget)
        except InvalidRequest as error:
            text = f"{error.code}: agent {manifest.name} works with model {model}, whose price is not known, and the "
            raise ToolFailure(f"{text}cost of this work is limited; call another agent", kind="denied") from None
        except MeshUnavailable as error:
            raise ToolFailure(error.message, kind="unavailable") from None

    async def _require_fit(self, turn: Turn) -> None:
        try:
            await self._services.require_fit(turn)
        except TooLarge as error:
            self._services.live_sessions.discard_unstored(turn.session)
            raise ToolFailure(f"prompt: {error.message}", kind="invalid") from None

    def _caller(self, context: ToolContext) -> Turn:
        turn = self._inline_turns.get(context.message_id) or self._services.admission.queues.turn(context.message_id)
        if turn is None:
            raise ToolFailure("the calling turn has ended", kind="unavailable")
        return turn

    def _recorded_turn(self, turn: Turn) -> Turn:
        """Return the turn itself, or for an inline turn the caller that has rows and the session."""
        while turn.message_id in self._inline_turns and turn.request.parent is not None:
            turn = turn.request.parent
        return turn

    def _turn(self, request: SubagentRequest, manifest: Manifest, caller: Turn, session: LiveSession) -> Turn:
        seconds = min(self._limits.seconds, caller.seconds_left(self._services.clock.monotonic()))
        if request.background:
            seconds = self._limits.seconds
        limits = TurnLimits(self._limits.steps, seconds, max_output=self._limits.max_output).at_most(manifest.max_steps)
        message_id = self._services.ids.new("msg")
        return Turn(
            TurnRequest(
                session=session,
                message_id=message_id,
                reply_id=self._services.ids.new("msg"),
                parts=[{"type": "text", "text": request.prompt}],
                session_name=session.id,
                message_name=message_id,
                agent=manifest.name,
                temperature=manifest.temperature,
                parent=caller,
                on_end=self._report_to_parent if request.background else None,
            ),
            budget=UsageBudget(limits, caller_budget=caller.budget),
            model=manifest.model or caller.model,
        )

    def _report_to_parent(self, connection: sqlite3.Connection, ended: Turn, now: int) -> None:
        report_to_parent(connection, self._services.ids, ended, now)

    def _slots_at(self, depth: int) -> AgentSlots:
        return self._slots.setdefault(depth, AgentSlots(self._max_concurrent, self._services.clock.monotonic))


async def _wait_for_first(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _result(turn: Turn, text: str, **more: Any) -> dict[str, Any]:
    """Return the agent's answer. Raises ToolFailure, with the partial answer, if the turn did not complete."""
    outcome = turn.end.outcome
    if outcome is not None and outcome.status == "complete":
        limit = {"limit": outcome.limit} if outcome.limit else {}
        return {"output": text, **limit, **more}
    why = outcome.error if outcome and outcome.error else "it was stopped"
    partial = f"; so far it had said: {text[:2000]}" if text else ""
    kind = "timeout" if outcome is not None and outcome.status == "timeout" else "backend"
    raise ToolFailure(f"agent {turn.request.agent} did not finish: {why}{partial}", kind=kind)
