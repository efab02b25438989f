"""`say`: speak in a session of the hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ports import HubAccess, ToolContext, ToolSpec
from ..core.contract import Tool
from ..core.declaration import object_schema, touches
from .common import ANSWER_SECONDS, MAX_TEXT, NAME, WRITE, caller_of, count_sent

DESCRIPTION = (
    "Say something in a session of the hub, to all in it or to some. In a workflow, hand_over_to says who is next. You "
    "need not use this to answer what other agents have said to you: your reply is sent to them. If you use it in the "
    "session in which you answer, it stands in place of your reply."
)
PARAMETERS = object_schema(
    "text",
    text={"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
    session={**NAME, "description": "Its id; default: the session in which you answer"},
    audience={
        "type": "array",
        "items": NAME,
        "minItems": 1,
        "maxItems": 100,
        "description": "Names of those who may read it; default: all",
    },
    hand_over_to={**NAME, "description": "Name of the agent whose turn is next, in a workflow"},
)


def say_tool(hub: HubAccess) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        count_sent(context, arguments["text"])
        return await hub.say(
            caller_of(context),
            arguments["text"],
            session=arguments.get("session"),
            audience=arguments.get("audience"),
            hand_over_to=arguments.get("hand_over_to"),
        )

    return Tool(
        ToolSpec("say", DESCRIPTION, PARAMETERS, "hub"),
        run,
        WRITE,
        timeout=ANSWER_SECONDS,
        describe_access=touches("session"),
        result_doc="`session`, `envelope_id`",
        limits_doc=f"{MAX_TEXT:,} characters",
    )
