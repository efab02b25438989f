"""`agent chat`, from which session it is to its end: in a terminal, or in plain lines where there is none."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..errors import CliError
from ..latest_session import latest_session
from .options import ChatOptions
from .session_names import checked_session_name, new_session_name

if TYPE_CHECKING:
    from ... import Agent


async def run_chat(agent: Agent, options: ChatOptions) -> int:
    """Chat until the person leaves, and return the exit code. Raises CliError, ClientError when it cannot begin."""
    session = await _session(agent, options)
    if not _is_terminal():
        from .plain import run_plain

        return await run_plain(agent, session, options)
    from .window import ChatWindow

    return await ChatWindow(agent, session, options).run()


async def _session(agent: Agent, options: ChatOptions) -> str:
    """The name of the session. Asks the agent, so that one which cannot be reached is known before the screen opens."""
    await agent.status()
    if options.session is not None:
        return checked_session_name(options.session)
    if options.last:
        latest = await latest_session(agent)
        if latest is None:
            raise CliError("there is no session to continue", "start one without -c")
        return latest
    return new_session_name()


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
