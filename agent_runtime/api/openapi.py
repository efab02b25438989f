"""The OpenAPI description, built on demand, because its schemas are slow to build and no other request needs them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from agent_common.protocol import (
    AbortReply,
    AgentPermissions,
    AgentPermissionsList,
    AgentPermissionsQuery,
    AgentPermissionsUpdate,
    AgentStatus,
    AnswerReply,
    AnswerRequest,
    CancelReply,
    Capabilities,
    ChatPending,
    ChatReply,
    ChatRequest,
    CompactReply,
    ExportQuery,
    ForkRequest,
    ImportedSession,
    ImportQuery,
    MessageList,
    MessagesQuery,
    PendingList,
    PendingQuery,
    Permissions,
    PermissionsUpdate,
    Problem,
    PromptReply,
    ResetReply,
    ResetRequest,
    ResultQuery,
    RewindReply,
    RewindRequest,
    SessionDetail,
    SessionList,
    SessionPatch,
    SessionsQuery,
    StreamQuery,
    TaskAccepted,
    TaskAssignment,
    TaskList,
    TaskRecord,
    TaskResult,
    TasksQuery,
    UnrewindReply,
    UseChatRequest,
    WorkspaceListing,
    WorkspaceQuery,
)

Shape = type[BaseModel]
_BODIES: dict[str, tuple[Shape, ...]] = {
    "post /task": (TaskAssignment,),
    "post /chat": (ChatRequest, UseChatRequest),
    "post /chat/stream": (ChatRequest, UseChatRequest),
    "post /chat/steer": (ChatRequest,),
    "post /chat/reset": (ResetRequest,),
    "post /chat/{session}/answer": (AnswerRequest,),
    "patch /sessions/{session_id}": (SessionPatch,),
    "put /sessions/{session_id}/permissions": (PermissionsUpdate,),
    "put /permissions/{agent}": (AgentPermissionsUpdate,),
    "post /sessions/{session_id}/fork": (ForkRequest,),
    "post /sessions/{session_id}/rewind": (RewindRequest,),
}
_QUERIES: dict[str, Shape] = {
    "get /tasks": TasksQuery,
    "get /result": ResultQuery,
    "get /chat/{session}/stream": StreamQuery,
    "get /pending": PendingQuery,
    "get /sessions": SessionsQuery,
    "get /sessions/{session_id}/messages": MessagesQuery,
    "get /sessions/{session_id}/export": ExportQuery,
    "post /sessions/import": ImportQuery,
    "get /permissions": AgentPermissionsQuery,
    "get /workspace": WorkspaceQuery,
    "get /workspace/{path}": WorkspaceQuery,
}
_RAW: dict[str, dict[str, Any]] = {
    "post /sessions/import": {
        "application/jsonl": {"schema": {"type": "string", "description": "an export of a session"}}
    },
    "put /workspace/{path}": {
        "*/*": {"schema": {"type": "string", "format": "binary", "description": "the whole new content of the file"}}
    },
}
_REPLIES: dict[str, dict[str, Shape]] = {
    "post /task": {"202": TaskAccepted, "200": TaskRecord},
    "get /tasks": {"200": TaskList},
    "get /task/{task_id}": {"200": TaskRecord},
    "post /task/{task_id}/cancel": {"200": TaskRecord},
    "get /result": {"200": TaskResult},
    "post /chat": {"200": ChatReply, "202": ChatPending},
    "post /chat/steer": {"200": ChatReply, "202": ChatPending},
    "post /chat/reset": {"200": ResetReply},
    "post /chat/{session}/abort": {"200": AbortReply},
    "post /chat/{session}/answer": {"200": AnswerReply},
    "delete /chat/{session}/queue/{message_id}": {"200": CancelReply},
    "get /pending": {"200": PendingList},
    "get /sessions": {"200": SessionList},
    "get /sessions/{session_id}": {"200": SessionDetail},
    "patch /sessions/{session_id}": {"200": SessionDetail},
    "delete /sessions/{session_id}": {"200": SessionDetail},
    "get /sessions/{session_id}/messages": {"200": MessageList},
    "get /sessions/{session_id}/prompt": {"200": PromptReply},
    "get /sessions/{session_id}/permissions": {"200": Permissions},
    "put /sessions/{session_id}/permissions": {"200": Permissions},
    "get /permissions": {"200": AgentPermissionsList},
    "get /permissions/{agent}": {"200": AgentPermissions},
    "put /permissions/{agent}": {"200": AgentPermissions},
    "delete /permissions/{agent}": {"200": AgentPermissions},
    "post /sessions/{session_id}/fork": {"201": SessionDetail},
    "post /sessions/{session_id}/rewind": {"200": RewindReply},
    "post /sessions/{session_id}/compact": {"200": CompactReply},
    "post /sessions/{session_id}/unrewind": {"200": UnrewindReply},
    "post /sessions/import": {"201": ImportedSession},
    "get /status": {"200": AgentStatus},
    "get /capabilities": {"200": Capabilities},
    "get /workspace": {"200": WorkspaceListing},
    "get /workspace/{path}": {"200": WorkspaceListing},
}
_PROBES = ("/healthz", "/readyz")
_REF = "#/components/schemas/{model}"


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the complete OpenAPI document."""
    document: dict[str, Any] = get_openapi(title=app.title, version=app.version, routes=app.routes)
    shapes = {shape for shapes in _BODIES.values() for shape in shapes} | {Problem}
    shapes |= {shape for replies in _REPLIES.values() for shape in replies.values()}
    _, schemas = models_json_schema([(shape, "validation") for shape in shapes], ref_template=_REF)
    document.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _complete(operation, f"{method} {path}", probe=path in _PROBES)
    return document


def _complete(operation: dict[str, Any], route: str, *, probe: bool) -> None:
    """Add body, query parameters and responses to an operation."""
    if not probe:
        operation["security"] = [{"token": []}]
    if bodies := _BODIES.get(route):
        refs = [_ref(shape) for shape in bodies]
        schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    elif raw := _RAW.get(route):
        operation["requestBody"] = {"required": True, "content": raw}
    if (asked := _QUERIES.get(route)) is not None:
        operation.setdefault("parameters", []).extend(_parameters(asked))
    responses: dict[str, Any] = operation["responses"]
    responses.pop("422", None)
    for status, shape in _REPLIES.get(route, {}).items():
        responses[status] = {"description": "", "content": {"application/json": {"schema": _ref(shape)}}}
    problem = {"application/problem+json": {"schema": _ref(Problem)}}
    responses["default"] = {"description": "Error", "content": problem}


def _parameters(shape: Shape) -> list[dict[str, Any]]:
    fields: dict[str, Any] = shape.model_json_schema()["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in fields.items()]


def _ref(shape: Shape) -> dict[str, str]:
    return {"$ref": _REF.format(model=shape.__name__)}
