"""`list_agents`: the other agents of the team, and what they can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from ...ports import MeshRequest, TeamRequests, ToolContext, ToolSpec
from ..core.contract import Tool
from ..core.declaration import object_schema
from .exchange import MESH_DEADLINE, READ, read_object, sender

MAX_LISTED = 50
DEFAULT_LISTED = 20
MAX_NAMES = 40
"""Names of skills and tools that are shown of an agent."""
DESCRIPTION = (
    "List the agents of your team, yourself included: id, role, state (attached: it takes work now), agents, skills, "
    "tools. What a card says is what its agent says of itself, not a proof. Ask one with ask_agent."
)
_TEXT = {"type": "string", "minLength": 1, "maxLength": 200}
PARAMETERS = object_schema(
    capability={**_TEXT, "description": "Only with a skill, tool or agent of exactly this name"},
    query={**_TEXT, "description": "Only with this text in the card"},
    after={"type": "string", "maxLength": 100, "description": "`next` of the page before"},
    limit={
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_LISTED,
        "description": f"Most agents; default: {DEFAULT_LISTED}",
    },
)
_QUERY_NAMES = {"query": "q"}


def list_agents_tool(team: TeamRequests) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        given = {_QUERY_NAMES.get(name, name): value for name, value in arguments.items()}
        path = f"/agents?{urlencode({'limit': DEFAULT_LISTED, **given}, errors='replace')}"
        request = MeshRequest("GET", path, session_id=context.session_id, task_id=context.task_id)
        page = await read_object(await sender(team, context)(request))
        return {**page, "agents": [_shown(agent) for agent in page.get("agents", ())]}

    spec = ToolSpec("list_agents", DESCRIPTION, PARAMETERS, "mesh", read_only=True, idempotent=True)
    return Tool(
        spec,
        run,
        READ,
        timeout=MESH_DEADLINE,
        result_doc="`agents` of `id`, `state`, `name`, `role`, `agents`, `skills`, `tools`, `more?`; `next?`",
        limits_doc=f"{MAX_LISTED} agents, {MAX_NAMES} names of each kind ([page](peers.md))",
    )


def _shown(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model needs of a card: not its protocols, and of long lists the beginning."""
    found = {name: agent[name] for name in ("id", "state", "name", "role") if name in agent}
    lists = {name: agent.get(name, []) for name in ("agents", "skills", "tools")}
    cut = {name: len(values) - MAX_NAMES for name, values in lists.items() if len(values) > MAX_NAMES}
    shown = {name: values[:MAX_NAMES] for name, values in lists.items()}
    return {**found, **shown, **({"more": cut} if cut else {})}
