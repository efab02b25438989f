"""The guide's dialect (spec/mediation.md 1.1): what older peers leave out is filled in; then it is the strict one."""

from __future__ import annotations

from typing import Any

from .frames import FrameFault, validated
from .shapes import LifecycleSignal, WorkRequest, WorkResult

_RESULT = {"request_id", "status", "content", "error", "completed_at", "audit_ref"}
_SIGNAL = {"signal", "agent_id", "observed_at", "request_id", "detail", "error"}


def loose_result(value: dict[str, Any], *, now: str, audit_ref: str) -> WorkResult:
    """`ok` stands for a status, other fields are left out. Raises FrameFault."""
    filled = {"completed_at": now, "audit_ref": audit_ref, **_known(value, _RESULT)}
    if "status" not in filled:
        if not isinstance(value.get("ok"), bool):
            raise FrameFault("invalid_frame", "WorkResult: ok: must be true or false")
        filled["status"] = "completed" if value["ok"] else "failed"
    for name in ("content", "error"):
        if filled.get(name) is not None and not isinstance(filled[name], str):
            filled[name] = _as_text(filled[name])
    result = validated(WorkResult, filled)
    assert isinstance(result, WorkResult)  # noqa: S101
    return result


def loose_signal(value: dict[str, Any], *, now: str, agent_id: str) -> LifecycleSignal:
    """Who and when are filled in. Raises FrameFault."""
    signal = validated(LifecycleSignal, {"agent_id": agent_id, "observed_at": now, **_known(value, _SIGNAL)})
    assert isinstance(signal, LifecycleSignal)  # noqa: S101
    return signal


def loose_request(value: dict[str, Any], *, now: str, constraints_version: int) -> WorkRequest:
    """A principal that is a plain string is an unverified user. Raises FrameFault."""
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
    request = validated(WorkRequest, filled)
    assert isinstance(request, WorkRequest)  # noqa: S101
    return request


def _known(value: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if name in names}


def _as_text(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
