"""The session that `-c` continues."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .. import Agent

KNOWN_TASKS = 1_000
"""How many of the latest tasks are looked through for their sessions."""


async def latest_session(agent: Agent) -> str | None:
    """Return the session that changed last, or None. The session of a task is left out, because it ends with its
    result: only its name leads there. Raises ClientError."""
    of_tasks: set[str] | None = None
    async for session in agent.sessions.list():
        if session.alias is None:  # a name is given by a person
            of_tasks = await _sessions_of_tasks(agent) if of_tasks is None else of_tasks
            if session.id in of_tasks:
                continue
        return session.session_id
    return None


async def _sessions_of_tasks(agent: Agent) -> set[str]:
    found: set[str] = set()
    async for task in agent.tasks():
        if task.session_id:
            found.add(task.session_id)
        if len(found) == KNOWN_TASKS:
            break
    return found
