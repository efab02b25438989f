"""`publish_event`: a message to a topic of the team."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from agent_common.protocol import MAX_MESSAGE_ID, MAX_VALUE_BYTES

from ...ports import MeshRequest, TeamRequests, ToolContext, ToolSpec
from ..core.contract import Tool
from ..core.declaration import object_schema, touches
from .exchange import MESH_DEADLINE, WRITE, json_bytes, read_object, sender

DESCRIPTION = (
    "Publish a message to a topic of your team. The host stores it, and whoever follows the topic gets it. Give it an "
    "id of your own if you may have to send it again: the same id with the same data is published once."
)
TOPIC: Mapping[str, Any] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$",
    "description": "Such as orders; letters, digits and . _ : -",
}
PARAMETERS = object_schema(
    "topic",
    "data",
    topic=TOPIC,
    data={"description": "Any JSON value"},
    id={"type": "string", "minLength": 1, "maxLength": MAX_MESSAGE_ID, "description": "Your own id of the message"},
)


def publish_event_tool(team: TeamRequests) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        json_bytes("data", arguments["data"])
        body = {name: arguments[name] for name in ("id", "data") if name in arguments}
        request = MeshRequest(
            "POST",
            f"/topics/{quote(arguments['topic'], safe='')}",
            json_bytes("data", body, MAX_VALUE_BYTES + 4096),
            {"content-type": "application/json"},
            context.session_id,
            context.task_id,
        )
        reply = await sender(team, context)(request)
        answer = await read_object(reply)
        return {"id": answer.get("id"), "seq": answer.get("seq"), "known": reply.status == 200}

    return Tool(
        ToolSpec("publish_event", DESCRIPTION, PARAMETERS, "mesh"),
        run,
        WRITE,
        timeout=MESH_DEADLINE,
        describe_access=touches("topic"),
        result_doc="`id`, `seq`, `known`: whether it was there already",
        limits_doc=f"{MAX_VALUE_BYTES // 1024} KiB of data ([page](topics.md))",
    )
