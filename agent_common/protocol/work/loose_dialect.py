"""Convert between the loose and the strict dialect (docs/protocols/mediation.md#11-two-dialects). Fields that the loose
dialect does not have are filled in on reading and left out on writing, so that other code sees only strict frames."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from .frames import FrameFault, validate_frame
from .messages import RETRYABLE, LifecycleSignal, WorkRequest, WorkResult

_RESULT = {"request_id", "status", "content", "error", "completed_at", "audit_ref"}
_SIGNAL = {"signal", "agent_id", "observed_at", "request_id", "detail", "error"}


def read_loose_result(value: dict[str, Any], *, now: str, audit_ref: str) -> WorkResult:
    """Read a result, in which `ok` takes the place of the status. Raises FrameFault if it is not one."""
    filled = {"completed_at": now, "audit_ref": audit_ref, **_known(value, _RESULT)}
    if "status" not in filled:
        if not isinstance(value.get("ok"), bool):
            raise FrameFault("invalid_frame", "WorkResult: ok: must be true or false")
        filled["status"] = "completed" if value["ok"] else _strict_status(value.get("error"))
    for name in ("content", "error"):
        if filled.get(name) is not None and not isinstance(filled[name], str):
            filled[name] = _as_text(filled[name])
    result = validate_frame(WorkResult, filled)
    assert isinstance(result, WorkResult)  # noqa: S101
    return result


def read_loose_signal(value: dict[str, Any], *, now: str, agent_id: str) -> LifecycleSignal:
    """Read a signal, and fill in its agent and time. Raises FrameFault if it is not one."""
    signal = validate_frame(LifecycleSignal, {"agent_id": agent_id, "observed_at": now, **_known(value, _SIGNAL)})
    assert isinstance(signal, LifecycleSignal)  # noqa: S101
    return signal


def read_loose_request(value: dict[str, Any], *, now: str, constraints_version: int) -> WorkRequest:
    """Read a request. A principal that is a plain string is an unverified user. Raises FrameFault if it is not one."""
    principal: Any = value.get("principal")
    if isinstance(principal, str):
        principal = {"name": principal, "kind": "user", "verified": False}
    content = value.get("content")
    filled = {
        "constraints_version": constraints_version,
        "submitted_at": now,
        "audit_ref": str(value.get("request_id", ""))[:500],
        **{name: one for name, one in value.items() if name in WorkRequest.model_fields},
        "principal": principal,
        "content": content if isinstance(content, str) or content is None else _as_text(content),
    }
    if not isinstance(content, str) and content is not None:
        filled.setdefault("content_kind", "json")
    request = validate_frame(WorkRequest, filled)
    assert isinstance(request, WorkRequest)  # noqa: S101
    return request


def to_loose(frame: BaseModel) -> BaseModel | dict[str, Any]:
    """Return the frame in the loose dialect; shapes that the dialect does not have stay as they are."""
    match frame:
        case WorkRequest():
            return {"request_id": frame.request_id, "principal": frame.principal.name, "content": _content(frame)}
        case WorkResult():
            result = {"request_id": frame.request_id, "ok": frame.status == "completed", "content": frame.content or ""}
            return result if frame.error is None else {**result, "error": frame.error}
        case LifecycleSignal():
            return frame.model_dump(include={"signal", "request_id", "detail", "error"}, exclude_none=True)
        case _:
            return frame


def _content(request: WorkRequest) -> Any:
    """Return JSON content as a JSON value, because the dialect has no field for the kind of content."""
    if request.content_kind != "text":
        try:
            value = json.loads(request.content)  # noqa: TID251  at most a line long
        except (ValueError, RecursionError):
            return request.content
        if isinstance(value, dict | list):
            return value  # pyright: ignore[reportUnknownVariableType]
    return request.content


def _strict_status(error: Any) -> str:
    """Return the strict status of a result that is not `ok`: `denied` if the request may be sent again."""
    return "denied" if isinstance(error, str) and error.split(":", 1)[0] in RETRYABLE else "failed"


def _known(value: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if name in names}


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
