"""A turn that answers an envelope, as a task on the hub: a cancel of the task stops the turn."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from agent_common.hub_client import AgentClient, TaskMirror
from agent_common.protocol.hub import Envelope

from ..errors import NotReady
from ..loop import Admission, CompletedTurn, Turn
from ..sessions import text_of


async def mirrored_end(
    admission: Admission, client: AgentClient, envelope: Envelope, title: str, turn: Turn | CompletedTurn
) -> tuple[str, str]:
    """Return status and answer of a turn once it has ended; until then others see it as a task. Raises NotReady if
    this process ends before."""
    cancelled = asyncio.Event()
    mirror = TaskMirror(client, envelope, lambda _reason: cancelled.set())
    await mirror.attach(title)
    stopping = asyncio.get_running_loop().create_task(_stop_when(cancelled, admission, turn))
    try:
        status, text = await _end_of(turn)
    except BaseException:
        await mirror.detach(None)  # the next process goes on with it
        raise
    finally:
        stopping.cancel()
        await asyncio.wait([stopping])
    complete = status == "complete"
    await mirror.detach("completed" if complete else "failed", error=None if complete else f"its turn is {status}")
    return status, text


async def _stop_when(cancelled: asyncio.Event, admission: Admission, turn: Turn | CompletedTurn) -> None:
    await cancelled.wait()
    if isinstance(turn, Turn):
        with suppress(NotReady):  # it ends later than it should
            await admission.stop(turn)


async def _end_of(turn: Turn | CompletedTurn) -> tuple[str, str]:
    if isinstance(turn, CompletedTurn):
        parts = turn.reply.parts if turn.reply is not None else []
        return turn.outcome.get("status", "failed"), text_of(parts).strip()
    await turn.ended.wait()
    if turn.end.outcome is None:
        raise NotReady
    return turn.end.outcome.status, text_of(turn.end.reply_parts).strip()
