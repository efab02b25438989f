"""`peers`: which other agents there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ports import HubAccess, ToolContext, ToolSpec
from ..core.contract import Tool
from ..core.declaration import object_schema, touches
from .common import ANSWER_SECONDS, READ

MAX_LISTED = 100
DEFAULT_LISTED = 20
DESCRIPTION = (
    "List the other agents on the hub of your host, with what they say of themselves and whether they are connected. "
    "Ask one with delegate. Not for subagents of your own (task)."
)
PARAMETERS = object_schema(
    capability={"type": "string", "maxLength": 200, "description": "Only those that claim this capability"},
    text={"type": "string", "maxLength": 200, "description": "Only those whose name or summary has this text"},
    limit={
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_LISTED,
        "description": f"Most agents; default: {DEFAULT_LISTED}",
    },
)


def peers_tool(hub: HubAccess) -> Tool:
    async def run(arguments: Mapping[str, Any], _: ToolContext) -> dict[str, Any]:
        found = await hub.peers(
            capability=arguments.get("capability"),
            text=arguments.get("text"),
            limit=arguments.get("limit", DEFAULT_LISTED),
        )
        return {"agents": found}

    return Tool(
        ToolSpec("peers", DESCRIPTION, PARAMETERS, "hub", read_only=True, idempotent=True),
        run,
        READ,
        timeout=ANSWER_SECONDS,
        describe_access=touches("text"),
        result_doc="`agents` of `name`, `kind`, `connected`, `summary`, `capabilities`",
        limits_doc=f"{MAX_LISTED} agents",
    )
