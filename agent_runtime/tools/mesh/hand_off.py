"""`hand_off`: another agent of the team does something whenever it is there; nobody waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_common.protocol import DEFAULT_HAND_OFF_SECONDS, MAX_HAND_OFF_SECONDS, MAX_MESSAGE

from ...ports import MeshRequest, TeamRequests, ToolContext, ToolSpec
from ..core.contract import Tool
from ..core.declaration import object_schema, touches
from .ask_agent import AGENT, MESSAGE, call_key
from .exchange import ASK, MESH_DEADLINE, json_bytes, peer_path, read_object, sender

DESCRIPTION = (
    "Hand work off to another agent of your team without waiting: the host keeps it and gives it to the agent when it "
    "is there. No answer comes back to you, so say in the message where the result goes, such as a key of the "
    "blackboard or a topic. It sees only your message."
)
PARAMETERS = object_schema(
    "agent",
    "message",
    agent=AGENT,
    message=MESSAGE,
    deadline_seconds={
        "type": "number",
        "minimum": 1,
        "maximum": MAX_HAND_OFF_SECONDS,
        "description": f"How long the work may take; default: {DEFAULT_HAND_OFF_SECONDS:g}",
    },
)


def hand_off_tool(team: TeamRequests) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        seconds = arguments.get("deadline_seconds", DEFAULT_HAND_OFF_SECONDS)
        request = MeshRequest(
            "POST",
            f"{peer_path(arguments['agent'])}/hand-off",
            json_bytes("message", {"message": arguments["message"], "deadline_s": seconds}, 8 * MAX_MESSAGE),
            {"content-type": "application/json", "idempotency-key": call_key(context)},
            context.session_id,
            context.task_id,
            frozenset({200, 202}),
            user=context.principal,
        )
        answer = await read_object(await sender(team, context)(request))
        return {"handed_off": True, "request_id": answer.get("request_id"), "status": answer.get("status")}

    return Tool(
        ToolSpec("hand_off", DESCRIPTION, PARAMETERS, "mesh", idempotent=True),
        run,
        ASK,
        timeout=MESH_DEADLINE,
        describe_access=touches("agent"),
        result_doc="`handed_off`, `request_id`, `status` of the work",
        limits_doc=f"{MAX_MESSAGE} characters, {MAX_HAND_OFF_SECONDS / 3600:g} h ([page](peers.md#hand-off))",
    )
