"""`task`: gives a task to another agent, which has at most the authority of its caller."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ToolFailure
from ...ports import SubagentRequest, ToolContext, ToolSpec
from ..core.contract import AccessRequest, Tool

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
CLEANUP_SECONDS = 10.0
"""Seconds beyond the agent's own deadline for stopping it and collecting its answer."""
MAX_PROMPT_LENGTH = 100_000
_NAME = re.compile(r"[A-Za-z0-9_-]+")
DESCRIPTION = (
    "Hand a piece of work to another agent and get its final answer. It starts with nothing but your prompt: say all "
    "it needs to know, and what to answer with. It may do no more than you may. Several calls in one step run side by "
    "side. Use it for work that can stand alone, such as a broad search, not for a single read or command. With "
    "background it goes on by itself, you get its session_id at once, and its answer comes as a message later. "
    "Also called spawn_agent. "
    "Agents: {agents}."
)


def task_tool(callable_agents: Sequence[tuple[str, str]], *, timeout: float) -> Tool:
    """Make the tool `task`.

    `callable_agents`: names and descriptions; `timeout`: an agent's deadline in seconds.
    """

    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        if context.spawner is None:
            raise ToolFailure("agents cannot be called here", kind="unavailable")
        request = SubagentRequest(
            agent=arguments["subagent_type"],
            prompt=arguments["prompt"],
            background=arguments.get("background", False),
            metadata=arguments.get("metadata", {}),
        )
        return await context.spawner.spawn(request, context)

    there_are = "; ".join(f"{name} ({description.rstrip('.')})" for name, description in callable_agents)
    spec = ToolSpec("task", DESCRIPTION.format(agents=there_are or "none"), PARAMETERS)
    return Tool(
        spec,
        run,
        timeout=timeout + CLEANUP_SECONDS,
        describe_access=_describe_access,
        result_doc="`output`, `limit?`, `session_id?`; in the background `session_id`",
        limits_doc="5 deep; each agent `AGENT_SUBAGENT_TIMEOUT`, at each depth `AGENT_MAX_SUBAGENTS` at once",
    )


async def _describe_access(arguments: Mapping[str, Any], _: ToolContext) -> AccessRequest:
    name = arguments["subagent_type"]
    if not _NAME.fullmatch(name):  # otherwise a suggested rule would contain a pattern
        raise ToolFailure("subagent_type: is not a name of an agent", kind="invalid")
    return AccessRequest((name,))


PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "subagent_type": {"type": "string", "pattern": NAME_PATTERN, "description": "The name of the agent"},
        "prompt": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_PROMPT_LENGTH,
            "description": "The whole task, with all it needs to know",
        },
        "background": {"type": "boolean", "description": "Do not wait for it; default: false"},
        "metadata": {"type": "object", "description": "Kept with its session, for those who look at it later"},
    },
    "required": ["subagent_type", "prompt"],
    "additionalProperties": False,
}
