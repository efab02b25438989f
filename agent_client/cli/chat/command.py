"""`agent chat`: talk to an agent."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Annotated

import typer

from ..answered_by import AgentOption, AnsweredBy, ModelOption
from ..contexts import Target
from ..errors import UsageError
from ..run import Invocation, command
from .options import ChatOptions


@command
async def chat(
    call: Invocation,
    message: Annotated[str | None, typer.Argument(help="The first message.")] = None,
    last: Annotated[bool, typer.Option("--continue", "-c", help="Continue the session that changed last.")] = False,
    session: Annotated[str | None, typer.Option("--session", "-s", metavar="NAME", help="The session's name.")] = None,
    *,
    model: ModelOption = None,
    agent: AgentOption = None,
) -> int:
    """Talk to an agent."""
    from .run import run_chat

    if session and last:
        raise UsageError("-s and -c name two sessions", "keep one of them")
    target = call.target()
    options = ChatOptions(session, last, target.url, history_path(target), message, AnsweredBy(model, agent))
    async with call.agent() as opened:
        return await run_chat(opened, options)


def history_path(target: Target) -> Path:
    """Return the file of what was typed to this agent: below `~/.local/state/agent`, or XDG_STATE_HOME."""
    base = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    name = hashlib.sha256(f"{target.url}\n{target.workspace}\n{target.user}".encode()).hexdigest()[:16]
    return folder / "agent" / "history" / name
