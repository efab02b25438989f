"""Frames as JSON objects: build them, and recognize their kinds."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any, Literal

from agent_common.clock import SystemClock
from agent_common.protocol.work import to_rfc3339

Frame = dict[str, Any]
FrameTest = Callable[[Frame], bool]
Dialect = Literal["strict", "loose"]
_CLOCK = SystemClock()


def now() -> str:
    """Return the current time in the form of a frame's field."""
    return to_rfc3339(_CLOCK.now_ms())


def request_frame(dialect: Dialect, content: str, request_id: str | None = None, **more: Any) -> Frame:
    """Build a request of a verified principal; None gives it an id of its own."""
    frame: Frame = {"request_id": request_id or f"request-{uuid.uuid4().hex[:12]}", "content": content}
    if dialect == "loose":
        return {**frame, "principal": "operator", **more}
    return {
        **frame,
        "principal": {"name": "operator", "kind": "user", "verified": True, "verified_by": "a test"},
        "constraints_version": 0,
        "submitted_at": now(),
        "audit_ref": f"audit/{uuid.uuid4().hex[:8]}",
        **more,
    }


def signal_frame(dialect: Dialect, agent_id: str, name: str, **more: Any) -> Frame:
    """Build a lifecycle signal. The loose dialect has only its name and its request."""
    if dialect == "loose":
        return {"signal": name, **{key: one for key, one in more.items() if key == "request_id"}}
    return {"signal": name, "agent_id": agent_id, "observed_at": now(), **more}


def result_frame(dialect: Dialect, request: Frame, status: str, content: str | None = None, **more: Any) -> Frame:
    """Build the result of a request."""
    if dialect == "loose":
        return {"request_id": request["request_id"], "ok": status == "completed", "content": content}
    frame: Frame = {"request_id": request["request_id"], "status": status, "content": content, "completed_at": now()}
    return {**frame, "audit_ref": request.get("audit_ref", ""), **more}


def brief(frame: Frame) -> str:
    """Describe a frame in a few words."""
    kind = frame.get("ctl") or frame.get("signal") or ("result" if is_result(frame) else None)
    if kind is None:
        return json.dumps(frame, ensure_ascii=True)[:60]
    more = [frame.get("request_id"), frame.get("status"), frame.get("error")]
    return " ".join([str(kind), *(str(one)[:40] for one in more if one is not None)])


def is_result(frame: Frame, request_id: str | None = None) -> bool:
    """Return whether the frame is a result, of that request unless None."""
    fits = "request_id" in frame and ("status" in frame or "ok" in frame) and "ctl" not in frame
    return fits and request_id in (None, frame["request_id"])


def is_request(frame: Frame, request_id: str | None = None) -> bool:
    return "principal" in frame and request_id in (None, frame.get("request_id"))


def is_signal(frame: Frame, name: str, request_id: str | None = None) -> bool:
    return frame.get("signal") == name and (request_id is None or frame.get("request_id") == request_id)


def is_ack(frame: Frame) -> bool:
    """Return whether the frame is a ConstraintAck."""
    return "hash" in frame and "observed_at" in frame and "signal" not in frame


def is_ctl(frame: Frame, name: str) -> bool:
    return frame.get("ctl") == name
