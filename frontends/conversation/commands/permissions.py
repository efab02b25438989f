"""`/permissions`: what is always allowed in the conversations of a person or a group, and how it is taken back."""

from __future__ import annotations

from agent_client import NotFound
from agent_common.protocol import AgentPermissions

from ..words import code, plain
from .command import Call

MAX_LISTED = 20
"""Rules of one agent that are shown."""
_HOW = "`/permissions remove AGENT` takes back what is allowed with an agent."


async def permissions(call: Call) -> None:
    """List what is always allowed, by agent, or take back what is allowed with one."""
    word, _, agent = call.argument.partition(" ")
    if not call.argument:
        found = [_shown(one) for one in await call.agent.permissions.list()]
        text = "\n\n".join([*found, _HOW]) if found else "Nothing is always allowed beyond a conversation."
    elif word == "remove" and (name := agent.strip()):
        try:
            await call.agent.permissions.clear(name)
            text = f"Calls of {code(name)} are asked about again."
        except NotFound:
            text = f"There is no agent {code(name)}. /permissions lists those with something to take back."
    else:
        text = f"/permissions lists what is always allowed. {_HOW}"
    await call.context.tell(call.update, text)


def _shown(one: AgentPermissions) -> str:
    lines = [f"- {rule.action} {code(f'{rule.permission} {rule.pattern}', 100)}" for rule in one.rules[:MAX_LISTED]]
    more = [f"- … and {len(one.rules) - MAX_LISTED} more"] if len(one.rules) > MAX_LISTED else []
    return "\n".join([f"**With agent {plain(one.agent, 60)}**, in all conversations:\n", *lines, *more])
