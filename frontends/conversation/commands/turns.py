"""Commands about the turn that runs: let a message wait for its end, or stop it."""

from __future__ import annotations

from dataclasses import replace

from agent_client import NotFound

from .command import Call

_QUEUED = "⏳ Queued. The agent answers it after the messages before it."


async def queue(call: Call) -> None:
    """Send a message that has a turn of its own, after the one that runs."""
    if not call.argument and not call.update.files:
        await call.context.tell(call.update, "`/queue TEXT` lets the text wait until the agent has answered.")
        return
    source = replace(call.update, text=call.argument)
    await call.sending.send(call.update, call.chat, call.person, on_busy="queue", source=source, note=_QUEUED)


async def stop(call: Call) -> None:
    """Stop the turn that runs, or waits for a person."""
    try:
        stopped = (await call.agent.abort(call.chat.session)).aborted
    except NotFound:
        stopped = False
    await call.context.tell(call.update, "⏹ Stopped." if stopped else "Nothing runs.")
