"""What the tools of the mesh have in common: requests in the name of a call, and answers as data."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import quote

from pydantic_core import PydanticSerializationError, to_json

from agent_common.json_reader import JsonLimits, JsonRefused, read_json_async
from agent_common.protocol import MAX_KEY, MAX_VALUE_BYTES, RequirementSet, is_object

from ...errors import ToolFailure
from ...ports import MAX_MESH_BYTES, MESH_SECONDS, MeshReply, MeshRequest, MeshStream, TeamRequests, ToolContext

MESH_DEADLINE = MESH_SECONDS + 2
"""Seconds: a little longer than the request, whose own error says more."""
READ = RequirementSet(capabilities=["mesh.read"])
WRITE = RequirementSet(capabilities=["mesh.write"])
SERVICE = RequirementSet(capabilities=["mesh.service"])
ASK = RequirementSet(capabilities=["mesh.ask"])
KEY: Mapping[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_KEY,
    "description": "Such as plans/garden",
}
VERSION: Mapping[str, Any] = {"type": "integer", "minimum": 1, "description": "The version that you have read"}
_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ROUTES = ("claim", "history")
_LIMITS = JsonLimits(MAX_MESH_BYTES)
Send = Callable[[MeshRequest], Awaitable[MeshReply]]


def sender(team: TeamRequests, context: ToolContext) -> Send:
    """Return what sends requests in the name of a call; what they say counts as sent out of the workspace."""

    async def send(request: MeshRequest) -> MeshReply:
        if context.egress is not None:
            context.egress.count_sent(_size(request))
        return await team.request(request)

    return send


def opened(team: TeamRequests, context: ToolContext, request: MeshRequest) -> AbstractAsyncContextManager[MeshStream]:
    """Open an answer in the name of a call, as `sender` would send its request."""
    if context.egress is not None:
        context.egress.count_sent(_size(request))
    return team.open(request)


def _size(request: MeshRequest) -> int:
    body = request.body
    texts = (request.path, *request.headers.values())
    return sum(map(len, texts)) + (len(body or b"") if isinstance(body, bytes | None) else body.size)


async def read_object(reply: MeshReply) -> dict[str, Any]:
    """Return the object of an answer. Raises ToolFailure."""
    try:
        value = await read_json_async(reply.body, _LIMITS)
    except JsonRefused as refusal:
        raise ToolFailure(f"the host's answer cannot be read: {refusal}") from refusal
    if not is_object(value):
        raise ToolFailure("the host's answer is no object")
    return value


def json_bytes(name: str, value: Any, limit: int = MAX_VALUE_BYTES) -> bytes:
    """Return a value as JSON. Raises ToolFailure that names the argument."""
    try:
        text = to_json(value, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError) as error:
        raise ToolFailure(f"{name}: cannot be written as JSON: {error}", kind="invalid") from error
    if len(text) > limit:
        raise ToolFailure(f"{name}: has {len(text)} bytes as JSON; at most {limit} are allowed", kind="invalid")
    return text


def key_path(key: str) -> str:
    """Return the path of an entry. Raises ToolFailure for a key that would be another route."""
    parts = key.split("/")
    if not key.isprintable() or any(part in ("", ".", "..") for part in parts):
        raise ToolFailure("key: must be printable, and have no empty part, `.` or `..` between slashes", kind="invalid")
    if key == "watch" or (len(parts) > 1 and parts[-1] in _ROUTES):
        raise ToolFailure("key: must not be `watch`, nor end in `/claim` or `/history`", kind="invalid")
    return f"/blackboard/{quote(key, safe='/')}"


def peer_path(agent_id: str) -> str:
    """Return the path of another agent. Raises ToolFailure for an id that would be another route."""
    if not _AGENT_ID.fullmatch(agent_id):
        text = "must be an id as list_agents shows it: letters, digits, `.`, `_` and `-`"
        raise ToolFailure(f"agent: {text}", kind="invalid")
    return f"/agents/{agent_id}"


def condition(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the header that `if_version` or `if_absent` stands for. Raises ToolFailure for both."""
    version = arguments.get("if_version")
    absent = arguments.get("if_absent", False)
    if version is not None and absent:
        raise ToolFailure("if_version: must be left out with if_absent, which no version fits", kind="invalid")
    if absent:
        return {"if-none-match": "*"}
    return {} if version is None else {"if-match": f'"{version}"'}


def page_limit(most: int, default: int) -> dict[str, Any]:
    """Return the schema of `limit` of a list."""
    return {"type": "integer", "minimum": 1, "maximum": most, "description": f"Most entries; default: {default}"}
