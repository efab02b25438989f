"""`claim`: agree with the other agents of a team who does something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_common.protocol import MAX_LEASE_SECONDS

from ...ports import MeshRequest, TeamRequests, ToolContext, ToolSpec
from ..core.contract import Tool
from ..core.declaration import object_schema, touches
from .exchange import KEY, MESH_DEADLINE, WRITE, json_bytes, key_path, read_object, sender

DEFAULT_LEASE_SECONDS = 300
DESCRIPTION = (
    "Claim an entry of your team's blackboard for a while, such as a job that only one agent is to do; renew the claim "
    "before it ends, or release it when you are done. If another agent holds it, claimed is false and you are told who "
    "and until when (epoch milliseconds). A claim does not stop others from writing the entry."
)
PARAMETERS = object_schema(
    "key",
    key=KEY,
    action={"type": "string", "enum": ["claim", "renew", "release"], "description": "Default: claim"},
    lease_seconds={
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": MAX_LEASE_SECONDS,
        "description": f"Seconds until the claim ends by itself; default: {DEFAULT_LEASE_SECONDS}",
    },
)


def claim_tool(team: TeamRequests) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        lease = {"lease_seconds": arguments.get("lease_seconds", DEFAULT_LEASE_SECONDS)}
        releases = arguments.get("action") == "release"
        request = MeshRequest(
            "DELETE" if releases else "POST",
            f"{key_path(arguments['key'])}/claim",
            None if releases else json_bytes("lease_seconds", lease),
            {"content-type": "application/json"},
            context.session_id,
            context.task_id,
            frozenset({200, 204, 409}),
        )
        reply = await sender(team, context)(request)
        if reply.status == 204:
            return {"claimed": False, "released": True}
        answer = await read_object(reply)
        names = ("claim_id", "expires_at") if reply.status == 200 else ("claimed_by", "expires_at")
        return {"claimed": reply.status == 200, **{name: answer[name] for name in names if name in answer}}

    spec = ToolSpec("claim", DESCRIPTION, PARAMETERS, "mesh", idempotent=True)
    return Tool(
        spec,
        run,
        WRITE,
        timeout=MESH_DEADLINE,
        describe_access=touches("key"),
        result_doc="`claimed`, `claim_id?`, `expires_at?`; `claimed_by?` if another has it; `released?`",
        limits_doc=f"{MAX_LEASE_SECONDS / 3600:g} h ([page](blackboard.md#claims))",
    )
