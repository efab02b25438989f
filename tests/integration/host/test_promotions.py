"""What complete tasks promote is on the blackboard of their team, once, and their record says so."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from .live import Host
from .reporting import made, report


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("promotions") / "data") as host:
        yield host


def told(task_id: str, promote: dict[str, Any], *, status: str = "complete", **more: Any) -> dict[str, Any]:
    """A report of a task that promotes values."""
    result = {"task_id": task_id, "status": status, "session_id": f"ses_{task_id}", "promote_to_blackboard": promote}
    return {"task_id": task_id, "result": result, **more}


def entry(host: Host, key: str, team: str) -> dict[str, Any] | None:
    reply = host.operator.get(f"/blackboard/{key}", params={"team": team})
    return reply.json() if reply.status_code == 200 else None


def record(host: Host, workspace: str, task_id: str) -> dict[str, Any]:
    reply = host.operator.get("/results", params={"workspace": workspace, "task_id": task_id})
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_result_that_comes_again_and_again_promotes_once(host: Host) -> None:
    workspace = made(host, "once", team="once")
    one = told("t1", {"revenue": 50248.75, "notes/first": {"by": ["ann", None]}})
    report(workspace, one, one)
    promotions = [
        {"key": "revenue", "outcome": "created", "version": 1},
        {"key": "notes/first", "outcome": "created", "version": 1},
    ]
    assert record(host, "once", "t1")["promotions"] == promotions
    first = entry(host, "revenue", "once")
    assert first is not None
    assert (first["value"], first["updated_by"]) == (50248.75, "once")
    assert first["cause"] == {"session": "ses_t1", "task": "t1"}
    assert (entry(host, "notes/first", "once") or {})["value"] == {"by": ["ann", None]}
    assert host.operator.put("/blackboard/revenue?team=once", json={"value": "mine"}).status_code == 200
    os.kill(host.process.pid, signal.SIGKILL)
    host.start()
    report({**workspace, "mediation_url": made(host, "address")["mediation_url"]}, one)
    assert (entry(host, "revenue", "once") or {})["value"] == "mine", "it was promoted before, and not again"
    assert record(host, "once", "t1")["promotions"] == promotions
    assert host.operator.get("/blackboard").json() == {"entries": []}, "nothing of it is on another team's"


def test_the_rule_of_the_task_decides_where_another_value_is(host: Host) -> None:
    workspace = made(host, "rules", team="rules")
    for key in ("kept", "replaced"):
        assert host.operator.put(f"/blackboard/{key}?team=rules", json={"value": "before"}).status_code == 201
    report(
        workspace,
        told("last", {"replaced": "after"}, promotion_rule="last_writer"),
        told("default", {"replaced": "later"}),
        told("absent", {"kept": "after", "new": 1}, promotion_rule="if_absent"),
    )
    assert record(host, "rules", "last")["promotions"] == [{"key": "replaced", "outcome": "replaced", "version": 2}]
    assert record(host, "rules", "default")["promotions"] == [{"key": "replaced", "outcome": "replaced", "version": 3}]
    assert record(host, "rules", "absent")["promotions"] == [
        {"key": "kept", "outcome": "kept", "version": 1},
        {"key": "new", "outcome": "created", "version": 1},
    ]
    assert (entry(host, "kept", "rules") or {})["value"] == "before"
    history = host.operator.get("/blackboard/replaced/history", params={"team": "rules"}).json()["entries"]
    assert [(one["value"], one["cause"].get("task")) for one in history] == [
        ("later", "default"), ("after", "last"), ("before", None),
    ]  # fmt: skip


def test_what_cannot_be_written_is_told_and_holds_up_neither_the_result_nor_the_others(host: Host) -> None:
    workspace = made(host, "refused", team="refused")
    values = {"a//b": 1, "large": "x" * (256 * 1024), "good": 2, "claim": 3}
    report(workspace, told("some", values), told("many", {f"n/{number:03}": number for number in range(150)}))
    some = {one["key"]: one for one in record(host, "refused", "some")["promotions"]}
    assert {key: one["outcome"] for key, one in some.items()} == {
        "a//b": "refused", "large": "refused", "good": "created", "claim": "created",
    }  # fmt: skip
    assert "slash" in some["a//b"]["reason"]
    assert "at most 262144" in some["large"]["reason"]
    many = record(host, "refused", "many")["promotions"]
    assert [one["outcome"] for one in many] == ["created"] * 100 + ["refused"]
    assert "50 are left out" in many[100]["reason"]
    found = host.operator.get("/blackboard", params={"team": "refused", "prefix": "n/", "limit": 1000}).json()
    assert [one["value"] for one in found["entries"]] == list(range(100))


@pytest.mark.parametrize("status", ["failed", "cancelled", "timeout"])
def test_a_task_that_is_not_complete_promotes_nothing(host: Host, status: str) -> None:
    workspace = made(host, f"not-{status}", team="unfinished")
    report(workspace, told("t", {"x": 1}, status=status))
    assert "promotions" not in record(host, f"not-{status}", "t")
    assert entry(host, "x", "unfinished") is None
