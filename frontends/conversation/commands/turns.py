"""Commands about the turn that runs: let a message wait for its end, or stop it."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from agent_client import NotFound

from ...store import finish_in, waiting_before_in
from .command import Call

_QUEUED = "⏳ Queued. The agent answers it after the messages before it."
_TAKEN_BACK = "⏹ Nothing runs yet. What you wrote before and the agent has not got is taken back."


async def queue(call: Call) -> None:
    """Send a message that has a turn of its own, after the one that runs."""
    if not call.argument and not call.update.files:
        await call.context.tell(call.update, "`/queue TEXT` lets the text wait until the agent has answered.")
        return
    source = replace(call.update, text=call.argument)
    await call.sending.send(call.update, call.chat, call.person, on_busy="queue", source=source, note=_QUEUED)


async def stop(call: Call) -> None:
    """Stop the turn that runs, or waits for a person. If there is none, what the person has written before, and what
    could not be handed over yet, is taken back: its turn would be what they wanted to stop."""
    try:
        stopped = (await call.agent.abort(call.chat.session)).aborted
    except NotFound:
        stopped = False
    if stopped:
        await call.context.tell(call.update, "⏹ Stopped.")
        return
    it = call.context
    update = call.update
    waiting = await it.database.run(lambda c: waiting_before_in(c, it.bot.name, update.id))
    now = it.clock.now_ms()

    def take_back(connection: sqlite3.Connection) -> None:
        for id in waiting:
            finish_in(connection, it.bot.name, id, now=now)

    await it.finish(update, take_back, _TAKEN_BACK if waiting else "Nothing runs.")
