"""What operators read of the hub, and what an envelope becomes that nobody takes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from .hub_link import linked, opened
from .live import Host, assert_problem

ROUTES = ["/hub/agents", "/hub/sessions", "/hub/sessions/x/log", "/hub/dead-letters", "/hub/audit", "/hub/tasks"]


@pytest.mark.parametrize("path", ROUTES)
def test_only_operators_read_the_hub(host: Host, agent: httpx.Client, path: str) -> None:
    with host.client(None) as anyone:
        assert_problem(anyone.get(path), 401, "unauthorized")
    assert_problem(agent.get(path), 403, "forbidden")
    assert path.replace("/x/", "/{session_id}/") in host.operator.get("/openapi.json").json()["paths"]


def test_only_operators_cancel_tasks(host: Host, agent: httpx.Client) -> None:
    assert_problem(agent.post("/hub/tasks/t/cancel", json={}), 403, "forbidden")


def test_what_is_not_there_is_not_found(host: Host) -> None:
    assert_problem(host.operator.get("/hub/sessions/x/log"), 404, "not_found")
    assert_problem(host.operator.get("/hub/sessions", params={"agent": "nobody-of-that-name"}), 404, "not_found")
    assert_problem(host.operator.get("/hub/agents", params={"limit": 501}), 422, "invalid_request")


def pages(host: Host, path: str, key: str, **params: Any) -> list[dict[str, Any]]:
    """All pages, two rows each; one that has just room for all is the last, but for a log, which may grow."""
    found: list[dict[str, Any]] = []
    after: Any = None
    while True:
        given = {**params, "limit": 2, **({} if after is None else {"after": after})}
        page = host.operator.get(path, params=given)
        assert page.status_code == 200, page.text
        found += page.json()[key]
        after = page.json()["next"]
        if after is None:
            if key != "envelopes":
                whole = host.operator.get(path, params={**params, "limit": len(found)}).json()
                assert (whole[key], whole["next"]) == (found, None)
            return found


async def test_operators_see_agents_sessions_logs_and_dead_letters(tmp_path: Path) -> None:
    with Host(tmp_path, MESH_HUB_MAX_ATTEMPTS=1, MESH_PROVIDER="demo") as host:
        async with linked(host) as one, linked(host) as two:
            first = (await one.ask("register", passport={"name": "a"}, resume={"summary": "asks"}))["agent_id"]
            second = (await two.ask("register", passport={"name": "b"}))["agent_id"]
            await two.ask("register", passport={"name": "c"})
            session_ids = [await opened(one, first, two, second, "b") for _ in range(3)]
            sent = await one.say(session_ids[0], first, event_data={"text": "for b"}, audience=[second])
            await two.receipt(await two.notify("ag2.msg.text"), status="nack", reason="cannot read it")
            refused = await two.get()
            assert (refused["code"], refused["envelope_id"]) == ("dead_letter", sent["envelope_id"])
            await one.ask("close", agent_id=first, session_id=session_ids[1], reason="done")

            agents = pages(host, "/hub/agents", "agents")
            assert [(one["passport"]["name"], one["connected"]) for one in agents] == [
                ("a", True), ("b", True), ("c", True)
            ]  # fmt: skip
            assert [one["agent_id"] for one in pages(host, "/hub/agents", "agents", text="asks")] == [first]
            sessions = {one["session_id"]: one for one in pages(host, "/hub/sessions", "sessions", agent="b")}
            assert sorted(sessions) == sorted(session_ids)
            over = sessions[session_ids[1]]
            assert (over["state"], over["close_reason"], over["closed_at"] > 0) == ("closed", "done", True)
            assert [one["name"] for one in sessions[session_ids[0]]["participants"]] == ["a", "b"]
            log = pages(host, f"/hub/sessions/{session_ids[0]}/log", "envelopes")
            assert [one["event_type"].rpartition(".")[2] for one in log] == ["invite", "ack", "opened", "text"]
            assert log[3]["event_data"] == {"text": "for b"}
            (letter,) = pages(host, "/hub/dead-letters", "dead_letters")
            assert (letter["agent"], letter["reason"], letter["attempts"]) == ("b", "cannot read it", 1)
            assert letter["envelope_id"] == sent["envelope_id"]
            audit = pages(host, "/hub/audit", "entries")
            names = {one["agent_id"]: one["detail"]["name"] for one in audit if one["kind"] == "agent_registered"}
            assert (names[first], names[second]) == ("a", "b")
            (closed,) = [one for one in audit if one["kind"] == "session_closed"]
            assert (closed["session_id"], closed["detail"]) == (session_ids[1], {"reason": "done"})
            assert closed["agent_id"] == first, "it counts as its creator's"
            assert [one["id"] for one in audit] == sorted({one["id"] for one in audit})


async def test_operators_see_tasks_and_cancel_them(host: Host) -> None:
    async with linked(host) as one:
        owner = (await one.ask("register", passport={"name": "has-tasks"}))["agent_id"]
        for name in ("r1", "r2", "r3"):
            await one.ask("observe_task", agent_id=owner, task_id=name, spec={"title": name})
        listed = pages(host, "/hub/tasks", "tasks", agent="has-tasks")
        assert [one["spec"]["title"] for one in listed] == ["r1", "r2", "r3"]
        for _ in range(2):
            cancelled = host.operator.post("/hub/tasks/r2/cancel", json={"reason": "stop"})
            assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled"), cancelled.text
        found = await one.ask("get_task", task_id="r2")
        assert (found["state"], found["error"]) == ("cancelled", "stop")
        (row,) = pages(host, "/hub/tasks", "tasks", agent="has-tasks", state="cancelled")
        assert row["task_id"] == "r2"
        assert host.operator.post("/hub/tasks/r3/cancel").json()["error"] == "cancelled by an operator"
    assert_problem(host.operator.post("/hub/tasks/none/cancel", json={}), 404, "not_found")
    assert_problem(host.operator.get("/hub/tasks", params={"agent": "nobody-of-that-name"}), 404, "not_found")
    assert_problem(host.operator.get("/hub/tasks", params={"limit": 101}), 422, "invalid_request")


@pytest.mark.slow
async def test_what_was_confirmed_is_there_after_the_hosts_death(tmp_path: Path) -> None:
    host = Host(tmp_path, MESH_PROVIDER="demo")
    with host:
        async with linked(host) as one, linked(host) as two:
            first = (await one.ask("register", passport={"name": "a"}))["agent_id"]
            second = (await two.ask("register", passport={"name": "b"}))["agent_id"]
            session_id = await opened(one, first, two, second, "b")
            sent = await one.say(session_id, first, event_data={"text": "kept"})
            assert sent["kind"] == "accept"
            host.process.kill9()
        host.start()
        async with linked(host) as two:
            assert (await two.ask("register", passport={"name": "b"}))["agent_id"] == second
            text = await two.notify("ag2.msg.text")
            assert (text["envelope"]["envelope_id"], text["attempt"]) == (sent["envelope_id"], 2)


def test_a_deleted_workspace_leaves_the_hub(host: Host) -> None:
    """Another workspace of the same id does not go on as it."""
    created = host.operator.post("/workspaces", json={"id": "leaves-the-hub", "driver": "external"})
    assert created.status_code == 201, created.text
    token = host.token("leaves-the-hub")

    async def register() -> None:
        async with linked(host, token) as link:
            await link.ask("register", passport={"name": "leaves-the-hub"})

    asyncio.run(register())
    assert host.operator.delete("/workspaces/leaves-the-hub", params={"force": True}).status_code == 204
    listed = host.operator.get("/hub/agents", params={"text": "leaves-the-hub"}).json()["agents"]
    assert listed == []
