"""A turn inside another turn's tool call: the same loop, without rows of its own. A crash ends both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...context import View, sent_at
from ...ports import ToolContext
from ...sessions import Marker, MessageParts, past_steps
from ..core.turn_state import Turn
from ..scheduling.runner import TurnRunner
from ..turn.deps import TurnDeps
from ..turn.turn import run_turn
from ..turn.turn_tools import TurnTools


class NoSteering:
    """No message joins such a turn."""

    def take(self) -> Sequence[Turn]:
        return ()

    async def delivered(self, messages: Sequence[Turn]) -> None:
        return


async def play(turn: Turn, runner: TurnRunner, context: ToolContext, *, whole: bool = False) -> list[dict[str, Any]]:
    """Runs the turn to its end and gives the parts of its reply; `turn.outcome` says how it ended. Whoever is cancelled
    while he waits stops the turn. `whole`: what it is told is not compacted, however long it is."""
    turn.state = "running"
    turn.started_at = runner.clock.monotonic()
    parts = MessageParts(runner.ids.new)
    kit = _kit(turn, runner, context, None if whole else parts)
    turn.runner = asyncio.create_task(_drive(turn, kit, parts), name=f"turn {turn.message_id}")
    alarm = asyncio.get_running_loop().call_later(turn.books.limits.seconds, turn.stop, "deadline")
    try:
        await asyncio.shield(turn.runner)
    except asyncio.CancelledError:
        turn.stop("caller")
        await asyncio.wait({turn.runner})
        raise
    finally:
        alarm.cancel()
    return _said(parts)


async def _drive(turn: Turn, kit: TurnDeps, parts: MessageParts) -> None:
    async for chunk in run_turn(turn, kit):
        parts.apply(chunk)


def _said(parts: MessageParts) -> list[dict[str, Any]]:
    for part in parts.parts:
        part.fold()
    return [part.data for part in parts.parts]


def _kit(turn: Turn, runner: TurnRunner, context: ToolContext, parts: MessageParts | None) -> TurnDeps:
    conversation, notes = turn.conversation, (sent_at(runner.clock.now_ms()), *(turn.notes or ()))

    def seen(marker: Marker | None = None) -> View:
        view = View(conversation.prompt, conversation.agent, marker)
        view.add_user(turn.parts, notes=notes, message_id=turn.message_id)
        view.add_reply(past_steps(_said(parts)) if parts is not None else ())
        return view

    view = seen()
    return TurnDeps(
        runner.model,
        TurnTools(runner.catalog, conversation.tools, partial(runner.powers.of, turn)),
        view,
        replace(
            context,
            message_id=turn.message_id,
            agent=turn.agent,
            interactive=False,
            approved=False,
            packages=conversation.packages,
        ),
        partial(runner.powers.of, turn),
        runner.parallel_tools,
        before_tools=lambda: None,
        checkpoint=_nothing_to_save,
        saved=_nothing_to_save,
        steering=NoSteering(),
        learnings=runner.learnings,
        prices=runner.prices,
        room=runner.rooms.nested_room(turn, view, seen if parts is not None else None),
    )


async def _nothing_to_save() -> None:
    """The call that it is inside of is on disk."""
