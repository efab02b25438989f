"""What an agent makes of a plugin that it was just given."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...contexts import open_agent
from ...errors import CliError
from ...run import Invocation

if TYPE_CHECKING:
    from agent_common.protocol import SkillState

SECONDS = 10.0
"""How long a command waits for the verdict. A plugin whose packages must be installed first may take longer."""
_POLL_SECONDS = 0.1


async def states_of(call: Invocation, file: str) -> Sequence[SkillState] | None:
    """Return the states of the plugin's skills; None if the agent cannot be asked now."""
    from .... import ClientError

    try:
        async with asyncio.timeout(SECONDS), call.agent() as agent:
            return [one for one in await agent.skills() if one.file == file]
    except (ClientError, CliError, TimeoutError):
        return None


async def verdict(call: Invocation, file: str, before: Sequence[SkillState]) -> Sequence[SkillState]:
    """Return the states once they are others than before the file was written; none if that takes too long. Raises
    ClientError, CliError."""
    try:
        async with asyncio.timeout(SECONDS), open_agent(call.target()) as agent:
            while True:
                now = [one for one in await agent.skills() if one.file == file]
                if now and now != before:
                    return now
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        return []
