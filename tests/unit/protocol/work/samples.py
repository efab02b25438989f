"""Frames of every kind, and strategies that make more of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from agent_common.protocol.work import (
    CONTROLS,
    ConstraintAck,
    Constraints,
    Control,
    IdentityRevision,
    LifecycleSignal,
    WorkRequest,
    WorkResult,
)

AT = "2026-11-22T02:19:05.250Z"
HASH = "sha256:" + "0" * 64
REQUEST: dict[str, Any] = {
    "request_id": "req-1",
    "principal": {"name": "operator", "kind": "user", "verified": True},
    "content": "ping",
    "constraints_version": 0,
    "submitted_at": AT,
    "audit_ref": "audit-1",
}
RESULT: dict[str, Any] = {"request_id": "req-1", "status": "completed", "completed_at": AT, "audit_ref": "audit-1"}
SIGNAL: dict[str, Any] = {"signal": "ready", "agent_id": "agent-a", "observed_at": AT}
CONSTRAINTS: dict[str, Any] = {"version": 1, "hash": HASH, "effective_at": AT, "payload_ref": "inline"}
ACK: dict[str, Any] = {"version": 1, "hash": HASH, "agent_id": "agent-a", "observed_at": AT}
IDENTITY: dict[str, Any] = {"agent_id": "a", "version": 1, "hash": HASH, "mutated_at": AT, "mutation_ref": "m"}
SHAPES: dict[str, tuple[type, dict[str, Any]]] = {
    "request": (WorkRequest, REQUEST),
    "result": (WorkResult, RESULT),
    "signal": (LifecycleSignal, SIGNAL),
    "constraints": (Constraints, CONSTRAINTS),
    "ack": (ConstraintAck, ACK),
    "identity": (IdentityRevision, IDENTITY),
}

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
name = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
number = st.integers(0, 2**53 - 1)
maybe = st.none() | text
stamps = st.datetimes().map(lambda at: at.isoformat() + "Z")
members = st.dictionaries(text, st.none() | st.booleans() | number | text | st.lists(text, max_size=3), max_size=4)
usages = st.fixed_dictionaries({"tokens": number, "tool_calls": number, "egress_bytes": st.none() | number})
principals = st.fixed_dictionaries(
    {"name": name, "kind": st.sampled_from(["user", "agent", "service"]), "verified": st.booleans()},
    optional={"verified_by": maybe, "authorization_scope": st.lists(text, max_size=3)},
)
bounds = st.fixed_dictionaries(
    {}, optional={"max_duration_seconds": st.integers(1, 99), "max_tool_calls": number, "max_egress_bytes": st.none()}
)
_about = {"request_id": name}
requests = st.fixed_dictionaries(
    {**_about, "principal": principals, "content": text, "constraints_version": number}
    | {"submitted_at": stamps, "audit_ref": text},
    optional={
        "content_kind": st.sampled_from(["text", "json", "structured"]),
        "bounds": st.none() | bounds,
    },
).map(WorkRequest.model_validate)
results = st.fixed_dictionaries(
    {**_about, "status": st.sampled_from(["completed", "failed", "denied", "yielded"])}
    | {"completed_at": stamps, "audit_ref": text},
    optional={"content": maybe, "error": maybe},
).map(WorkResult.model_validate)
signals = st.fixed_dictionaries(
    {"signal": st.sampled_from(["ready", "accepting", "quarantined"]), "agent_id": name, "observed_at": stamps},
    optional={"request_id": st.none() | name, "detail": maybe, "error": maybe},
).map(LifecycleSignal.model_validate)
versions = st.fixed_dictionaries({"version": number, "hash": text, "effective_at": stamps, "payload_ref": name}).map(
    Constraints.model_validate
)
acks = st.fixed_dictionaries({"version": number, "hash": text, "agent_id": name, "observed_at": stamps}).map(
    ConstraintAck.model_validate
)
task_results = st.fixed_dictionaries(
    {"task_id": st.just("task-1"), "status": st.sampled_from(["complete", "failed", "cancelled", "timeout"])},
    optional={"result": st.none() | members, "error": maybe, "promote_to_blackboard": members, "tokens_used": number},
)
urls = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)
FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "welcome": {"workspace": name, "agent_id": name, "epoch": number, "challenge": maybe},
    "attach": {"sid": text, "mac": text},
    "resume": {"running": st.lists(name, max_size=3), "unacked": st.lists(name, max_size=3)},
    "resume_ok": {"verdicts": st.dictionaries(text, st.sampled_from(["continue", "cancel", "resend", "forget"]))},
    "ack": _about,
    "task_result": {"task_id": st.just("task-1"), "user": name, "finished_at": number, "result": task_results}
    | {"result_url": st.none() | urls, "truncated": st.booleans()}
    | {"promotion_rule": st.sampled_from([None, "last_writer", "if_absent"])},
    "task_ack": {"task_id": name, "user": name},
    "progress": {**_about, "seq": number, "kind": text, "text": maybe, "usage": st.none() | usages},
    "cancel": {**_about, "reason": text},
    "drain": {"deadline_s": st.floats(0, 604_800)},
    "ping": {"n": number},
    "pong": {"n": number},
    "nack": {"code": text, "request_id": st.none() | name, "detail": maybe},
    "constraints_payload": {"version": number, "b64": text},
    "open_api": {"id": name},
    "api_opened": {"id": name, "agent_id": name, "mac": maybe},
}
controls: st.SearchStrategy[Control] = st.one_of(
    *(st.fixed_dictionaries(fields).map(CONTROLS[ctl].model_validate) for ctl, fields in FIELDS.items())
)
frames = st.one_of(requests, results, signals, versions, acks, controls)
