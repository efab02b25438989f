"""Text and numbers that JSON can carry and a database, a line or a path cannot: refused with the field's name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .live import Host, assert_problem

HALF = "\ud800"
"""Half of a surrogate pair: JSON can say it, UTF-8 cannot."""
PRINCIPAL = "request.principal.authorization_scope.0"


def post(host: Host, path: str, body: dict[str, Any], **headers: str) -> Any:
    given = {"content-type": "application/json", **headers}
    return host.operator.post(path, content=json.dumps(body), headers=given)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"content": HALF}, "body"),
        ({"content": "x", "principal": {"authorization_scope": [HALF]}}, "body"),
        ({"content": "x", "principal": {"authorization_scope": ["x" * 501]}}, PRINCIPAL),
    ],
)
def test_work_that_no_line_can_carry(host: Host, request_: dict[str, Any], field: str) -> None:
    reply = post(host, "/work", {"workspace": "odd", "request": request_})
    assert assert_problem(reply, 422, "invalid_request")["errors"][0]["field"] == field


@pytest.mark.parametrize("key", ["a\tb", "a/b"])
def test_a_key_that_can_be_no_id(host: Host, key: str) -> None:
    reply = post(host, "/work", {"workspace": "odd", "request": {"content": "x"}}, **{"idempotency-key": key})
    assert assert_problem(reply, 422, "invalid_request")["errors"][0]["field"] == "idempotency-key"


@pytest.mark.parametrize("payload", [HALF, {"rule": HALF}, {"most": float("nan")}, {"most": float("inf")}])
def test_a_payload_that_no_agent_takes(host: Host, payload: Any) -> None:
    reply = post(host, "/workspaces/odd/constraints", {"version": 1, "payload": payload})
    assert assert_problem(reply, 422, "invalid_request")["errors"][0]["field"] == "body"


def test_a_row_that_no_database_has(host: Host) -> None:
    reply = host.operator.get("/audit", params={"after": 1 << 63})
    assert assert_problem(reply, 422, "invalid_request")["errors"][0]["field"] == "after"
    assert host.operator.get("/audit", params={"after": (1 << 63) - 1}).json() == {"entries": [], "next": None}
