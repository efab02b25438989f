"""`subscribe`: what others publish to a topic of the team comes to this session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from agent_common.protocol import MAX_BACKLOG, MAX_SUBSCRIPTIONS

from ...errors import ToolFailure
from ...ports import MeshRequest, TeamRequests, ToolContext, ToolSpec
from ..core.contract import Tool
from ..core.declaration import object_schema, touches
from .exchange import MESH_DEADLINE, READ, Send, json_bytes, read_object, sender
from .publish import TOPIC

DESCRIPTION = (
    "Subscribe this session to a topic of your team: what other agents publish to it from now on comes to you as a "
    "message, also after this turn, or joins the turn that is running. Nobody is there to be asked in such a turn; "
    "notify_user reaches the person. End it when it is no longer needed. Your own messages do not come."
)
_SHOWN = ("topic", "waiting", "dropped")
PARAMETERS = object_schema(
    topic=TOPIC,
    action={
        "type": "string",
        "enum": ["subscribe", "unsubscribe", "list"],
        "description": "Default: subscribe; list needs no topic",
    },
)


def subscribe_tool(team: TeamRequests, on_subscribe: Callable[[], None]) -> Tool:
    """`on_subscribe` is called whenever there may be a new subscription."""

    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        send = sender(team, context)
        action = arguments.get("action", "subscribe")
        if action == "list":
            return {"subscriptions": [{name: one[name] for name in _SHOWN} for one in await _own(send, context)]}
        topic = arguments.get("topic")
        if topic is None:
            raise ToolFailure(f"topic: is needed to {action}", kind="invalid")
        if action == "unsubscribe":
            return await _unsubscribe(send, context, topic)
        if not context.may_subscribe:
            text = "only a conversation subscribes: a task, work of the host or a subagent ends with its answer"
            raise ToolFailure(text, kind="denied")
        body = {"topic": topic, "session": context.session_id}
        request = _request(context, "POST", "/subscriptions", json_bytes("topic", body))
        try:
            reply = await send(request)
        finally:
            on_subscribe()  # also if its answer was lost
        return {"subscribed": True, "topic": topic, "known": reply.status == 200}

    return Tool(
        ToolSpec("subscribe", DESCRIPTION, PARAMETERS, "mesh", idempotent=True),
        run,
        READ,
        timeout=2 * MESH_DEADLINE,
        describe_access=touches("topic"),
        result_doc="`subscribed`, `topic`, `known`: it was there; `subscriptions` (`topic`, `waiting`, `dropped`)",
        limits_doc=f"{MAX_SUBSCRIPTIONS} of an agent, {MAX_BACKLOG} waiting messages each ([page](subscriptions.md))",
    )


async def _unsubscribe(send: Send, context: ToolContext, topic: str) -> dict[str, Any]:
    for one in await _own(send, context, topic=topic):
        path = f"/subscriptions/{quote(str(one['id']), safe='')}"
        await send(_request(context, "DELETE", path, accepted=frozenset({204, 404})))
    return {"subscribed": False, "topic": topic}


async def _own(send: Send, context: ToolContext, **more: str) -> list[dict[str, Any]]:
    """Return the subscriptions of this session."""
    query = urlencode({"session": context.session_id, **more})
    answer = await read_object(await send(_request(context, "GET", f"/subscriptions?{query}")))
    return answer.get("subscriptions", [])


def _request(
    context: ToolContext,
    method: str,
    path: str,
    body: bytes | None = None,
    accepted: frozenset[int] = frozenset({200, 201}),
) -> MeshRequest:
    headers = {"content-type": "application/json"}
    return MeshRequest(method, path, body, headers, context.session_id, context.task_id, accepted)
