"""Run a turn inside another turn's tool call: the same loop without rows of its own, so that a crash ends both."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

from ...context import View, sent_note
from ...ports import ToolContext
from ...sessions import Marker, MessageParts, past_steps
from ..core.turn_state import Turn
from ..services import LoopServices
from ..turn.context_budget import ContextBudgets
from ..turn.deps import TurnDeps
from ..turn.turn import run_turn
from ..turn.turn_tools import TurnTools


async def run_inline(
    turn: Turn,
    services: LoopServices,
    context_budgets: ContextBudgets,
    context: ToolContext,
    *,
    without_compaction: bool = False,
) -> list[dict[str, Any]]:
    """Run the turn to its end and return the parts of its reply; `turn.end.outcome` has its outcome. Cancelling the
    caller stops the turn. With `without_compaction`, its messages are never compacted."""
    turn.transition("running")
    turn.start.monotonic = services.clock.monotonic()
    parts = MessageParts(services.ids.new)
    deps = _build_deps(turn, services, context_budgets, context, None if without_compaction else parts)
    turn.run_task = asyncio.create_task(_drive(turn, deps, parts), name=f"turn {turn.message_id}")
    deadline = asyncio.get_running_loop().call_later(turn.budget.limits.seconds, turn.stop, "deadline")
    try:
        await asyncio.shield(turn.run_task)
    except asyncio.CancelledError:
        turn.stop("caller")
        await asyncio.wait({turn.run_task})
        raise
    finally:
        deadline.cancel()
    return _folded_parts(parts)


async def _drive(turn: Turn, deps: TurnDeps, parts: MessageParts) -> None:
    async for chunk in run_turn(turn, deps):
        parts.apply(chunk)


def _folded_parts(parts: MessageParts) -> list[dict[str, Any]]:
    for part in parts.parts:
        part.flush_pending()
    return [part.data for part in parts.parts]


def _build_deps(
    turn: Turn,
    services: LoopServices,
    context_budgets: ContextBudgets,
    context: ToolContext,
    parts: MessageParts | None,
) -> TurnDeps:
    session = turn.session
    own = turn.session.own_prompt
    notes = (sent_note(services.clock.now_ms()), *(turn.notes or ()))

    def seen(marker: Marker | None = None) -> View:
        view = View(own.prompt, session.agent, marker)
        view.add_user(turn.request.parts, notes=notes, message_id=turn.message_id)
        view.add_reply(past_steps(_folded_parts(parts)) if parts is not None else ())
        return view

    view = seen()
    authority = partial(services.authority_resolver.resolve, turn)
    return TurnDeps(
        services=services,
        tools=TurnTools(services.tool_catalog.snapshot(own.tools, authority()), own.tools, authority),
        view=view,
        tool_context=replace(
            context,
            message_id=turn.message_id,
            agent=turn.request.agent,
            interactive=False,
            may_subscribe=False,
            approved=False,
            packages=own.packages,
            was_aborted=turn.was_aborted,
        ),
        context_budget=context_budgets.open_inline_budget(turn, view, seen if parts is not None else None),
    )
