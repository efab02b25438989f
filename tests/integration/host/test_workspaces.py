"""Teams, settings and pages of workspaces, with runtimes that are real."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil
import pytest

from .live import PATIENCE, Host, assert_problem


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("mesh"), AGENT_MAX_ROUNDS=7, AGENT_MODEL="usual", MESH_STOP_GRACE=2) as host:
        yield host


def made(host: Host, name: str, **more: Any) -> dict[str, Any]:
    reply = host.operator.post("/workspaces", json={"id": name, **more})
    assert reply.status_code == 201, reply.text
    return reply.json()


def environment_of(host: Host, name: str) -> dict[str, str]:
    """The variables that the workspace's runtime was given."""
    environments = [child.environ() for child in psutil.Process(host.process.pid).children(recursive=True)]
    return next(one for one in environments if one.get("AGENT_ID") == name)


def test_settings_reach_the_runtime_in_the_place_of_the_operators(host: Host) -> None:
    workspace = made(
        host, "editor", settings={"AGENT_ROLE": "an editor", "AGENT_MODEL": "chosen", "AGENT_MAX_QUEUE": 3}
    )
    assert workspace["settings"] == {"AGENT_ROLE": "an editor", "AGENT_MODEL": "chosen", "AGENT_MAX_QUEUE": "3"}
    assert host.operator.post("/workspaces/editor/start").status_code == 200
    given = environment_of(host, "editor")
    assert (given["AGENT_MODEL"], given["AGENT_MAX_QUEUE"], given["AGENT_MAX_ROUNDS"]) == ("chosen", "3", "7")
    assert host.operator.get("/workspaces/editor/api/status").json()["role"] == "an editor"
    assert host.operator.get("/workspaces/editor").json()["settings"] == workspace["settings"]


def test_a_setting_that_is_not_the_callers_makes_no_workspace(host: Host) -> None:
    body = {"id": "thief", "settings": {"AGENT_TOKEN": "x", "AGENT_ROLE": "", "AGENT_MAX_ROUNDS": "0"}}
    problem = assert_problem(host.operator.post("/workspaces", json=body), 422, "invalid_request")
    assert {one["field"] for one in problem["errors"]} == {f"settings.{name}" for name in body["settings"]}
    assert "allowed are AGENT_ROLE, AGENT_MODEL, " in problem["detail"]
    assert_problem(host.operator.get("/workspaces/thief"), 404, "not_found")


def test_a_driver_that_passes_none_on_says_so(host: Host) -> None:
    body = {"id": "far", "driver": "external", "settings": {"AGENT_ROLE": "x"}}
    problem = assert_problem(host.operator.post("/workspaces", json=body), 422, "invalid_request")
    assert "where the agent is booted" in problem["detail"]
    assert made(host, "far", driver="external")["settings"] == {}, "the refused one has left nothing"


def test_lists_are_by_team_and_by_page(host: Host) -> None:
    for name in ("p3", "p1", "p2"):
        assert made(host, name, team="paged")["team"] == "paged"
    assert made(host, "plain")["team"] == "default"
    assert names(host, team="paged") == (["p1", "p2", "p3"], None)
    assert names(host, team="paged", limit=3) == (["p1", "p2", "p3"], None)
    assert names(host, team="paged", limit=2) == (["p1", "p2"], "p2")
    assert names(host, team="paged", limit=2, after="p2") == (["p3"], None)
    assert names(host, team="nobody") == ([], None)
    found, _ = names(host)
    assert found == sorted(found)
    assert {"p1", "plain"} <= set(found)


def test_one_of_several_callers_at_once_makes_a_workspace(host: Host) -> None:
    def create(_: int) -> tuple[int, str | None]:
        reply = host.operator.post("/workspaces", json={"id": "wanted"})
        return reply.status_code, reply.json().get("code")

    with ThreadPoolExecutor(8) as callers:
        answers = sorted(callers.map(create, range(8)))
    assert answers == [(201, None), *[(409, "id_taken")] * 7]


@pytest.mark.parametrize("team", ["", "a b", "../x", "x" * 101, "a\n", 5, None])
def test_a_name_that_no_team_can_have(host: Host, team: object) -> None:
    problem = assert_problem(host.operator.post("/workspaces", json={"id": "t", "team": team}), 422, "invalid_request")
    assert problem["errors"][0]["field"] == "team"


@pytest.mark.parametrize(("query", "field"), [({"limit": 0}, "limit"), ({"limit": 1001}, "limit")])
def test_a_page_that_cannot_be(host: Host, query: dict[str, int], field: str) -> None:
    problem = assert_problem(host.operator.get("/workspaces", params=query), 422, "invalid_request")
    assert problem["errors"][0]["field"] == field


@pytest.mark.slow
def test_changes_act_at_the_next_start(host: Host) -> None:
    made(host, "patched", settings={"AGENT_ROLE": "one", "AGENT_MAX_QUEUE": 3})
    assert change(host, "patched", settings={"AGENT_MAX_QUEUE": 4})["restart_needed"] is False, "it does not run"
    assert host.operator.post("/workspaces/patched/start").status_code == 200
    block = {"enabled": True, "required": True, "port": 2048, "failClosed": True}
    body = {"team": "press", "settings": {"AGENT_ROLE": None, "AGENT_MODEL": "chosen"}, "mediation": block}
    changed = change(host, "patched", **body)
    assert changed["settings"] == {"AGENT_MAX_QUEUE": "4", "AGENT_MODEL": "chosen"}
    assert (changed["team"], changed["state"], changed["restart_needed"]) == ("press", "running", True)
    assert changed["mediation"] == {**block, "target": changed["mediation_url"].removeprefix("tcp://")}
    given = environment_of(host, "patched")
    assert (given["AGENT_ROLE"], given["AGENT_MODEL"], given["AGENT_MAX_QUEUE"]) == ("one", "usual", "4")
    assert "AGENT_MEDIATION_REQUIRED" not in given
    assert change(host, "patched")["restart_needed"] is True, "it still has what it was started with"
    for verb in ("stop", "start"):
        assert host.operator.post(f"/workspaces/patched/{verb}").json()["restart_needed"] is False
    given = environment_of(host, "patched")
    assert (given["AGENT_MODEL"], given["AGENT_MEDIATION_REQUIRED"], "AGENT_ROLE" in given) == ("chosen", "true", False)


def test_a_team_alone_needs_no_restart(host: Host) -> None:
    made(host, "moved")
    assert host.operator.post("/workspaces/moved/start").status_code == 200
    assert change(host, "moved", team="press")["restart_needed"] is False
    host.operator.post("/workspaces/moved/stop")


@pytest.mark.slow
def test_changes_outlive_the_host(host: Host) -> None:
    made(host, "kept", team="one", settings={"AGENT_ROLE": "x"}, mediation={"required": False})
    changed = change(host, "kept", team="two", settings={"AGENT_ROLE": "y"}, mediation={})
    host.process.kill9()
    host.start()
    found = host.operator.get("/workspaces/kept").json()
    for field in ("team", "settings", "restart_needed"):
        assert found[field] == changed[field]
    assert found["mediation"]["required"] is found["mediation"]["failClosed"] is True


@pytest.mark.parametrize(
    ("body", "field", "why"),
    [
        ({"id": "other"}, "id", "cannot change; delete the workspace"),
        ({"driver": "external"}, "driver", "cannot change"),
        ({"listen": "tcp://127.0.0.1:1"}, "listen", "cannot change"),
        ({"state": "running"}, "state", "there is no such field"),
        ({"colour": "red"}, "colour", "there is no such field"),
        ({"settings": {"AGENT_TOKEN": "x"}}, "settings.AGENT_TOKEN", "a caller may not set this"),
        ({"settings": {"AGENT_TOKEN": None}}, "settings.AGENT_TOKEN", "a caller may not set this"),
        ({"settings": {"AGENT_MAX_ROUNDS": 0}}, "settings.AGENT_MAX_ROUNDS", "greater than or equal to 1"),
        ({"settings": None}, "settings", "valid dictionary"),
        ({"mediation": {"port": 1}}, "mediation.port", "2048"),
        ({"mediation": {"target": "127.0.0.1:1"}}, "mediation.target", "cannot change; its agent connects to tcp://"),
        ({"mediation": {"required": True, "failClosed": False}}, "mediation.failClosed", "must equal required"),
    ],
)
def test_what_cannot_change_is_told_by_name(host: Host, body: dict[str, Any], field: str, why: str) -> None:
    if host.operator.get("/workspaces/fixed").status_code == 404:
        made(host, "fixed")
    before = host.operator.get("/workspaces/fixed").json()
    reply = host.operator.patch("/workspaces/fixed", json={"team": "changed", **body})
    problem = assert_problem(reply, 422, "invalid_request")
    assert [one["field"] for one in problem["errors"]] == [field]
    assert why in problem["errors"][0]["message"] or why in problem["detail"]
    after = host.operator.get("/workspaces/fixed").json()
    assert (after["team"], after["settings"]) == (before["team"], before["settings"]), "nothing of it is done"


def test_what_is_not_there_cannot_change(host: Host) -> None:
    assert_problem(host.operator.patch("/workspaces/nobody", json={"team": "x"}), 404, "not_found")


def change(host: Host, name: str, **body: Any) -> dict[str, Any]:
    reply = host.operator.patch(f"/workspaces/{name}", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def names(host: Host, **query: Any) -> tuple[list[str], str | None]:
    reply: httpx.Response = host.operator.get("/workspaces", params=query, timeout=PATIENCE)
    page = reply.json()
    return [one["id"] for one in page["workspaces"]], page["next"]
