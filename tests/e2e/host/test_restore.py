"""The host ends, by itself or by a kill: what was meant to run runs again, and its work goes on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import TypeVar

import psutil
import pytest

from agent_client import Quarantined
from agent_testing import Call, Hang, Say, ScriptedProvider
from agent_testing.provider import Recorded, Step
from tests.integration.host.live import PATIENCE, Host, catalog

pytestmark = pytest.mark.slow
T = TypeVar("T")


def until(look: Callable[[], T | None], what: str) -> T:
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)
    return found


def create(host: Host, name: str) -> Path:
    """Make an agent that runs; its folder."""
    host.mesh.workspaces.create(name)
    return Path(host.mesh.workspaces.start(name).data_dir)


def state(host: Host, name: str) -> tuple[str, str]:
    seen = host.mesh.workspaces.get(name)
    return seen.state, seen.desired_state


def runs(host: Host, name: str) -> bool:
    return state(host, name) == ("running", "running")


def again(host: Host, *, kill: bool = False, **settings: str) -> None:
    """The host's next life."""
    if kill:
        host.process.kill9()
    else:
        assert host.process.terminate(timeout=PATIENCE) == 0
    host.env |= settings
    host.start()


def kinds(host: Host, name: str) -> list[str]:
    return [row["type"] for row in host.operator.get("/audit", params={"workspace": name}).json()["entries"]]


def test_two_agents_at_work_when_the_host_is_killed(tmp_path: Path) -> None:
    let = Event()

    def reply(request: Recorded) -> Step:
        """A command that leaves a mark; then an answer, which does not come in the host's first life."""
        if request.messages[-1]["role"] != "tool":
            return Call("bash", {"command": "echo mark >> marks"})
        return Say("It is done.") if let.is_set() else Hang()

    with (
        ScriptedProvider(reply) as provider,
        Host(
            tmp_path / "data",
            MESH_MODELS=catalog(tmp_path, provider),
            UPSTREAM_KEY="sk-1",
            MESH_LISTENER_WINDOW=1,  # the second request of each agent is still queued
        ) as host,
    ):
        names = ("one", "two")
        homes = [create(host, name) for name in names]
        requests = [f"{name}-{number}" for number in (1, 2) for name in names]
        for request_id in requests:
            host.mesh.work.submit(request_id.split("-")[0], f"Do {request_id}.", id=request_id)
        provider.wait_for(4, PATIENCE)  # both have made their mark, and wait for the model
        family = psutil.Process(host.process.pid).children(recursive=True)
        host.process.kill9()
        assert psutil.wait_procs(family, timeout=60)[1] == []
        provider.release()
        let.set()
        host.start()

        records = [host.mesh.work.wait(name, PATIENCE) for name in requests]
        assert [(one.status, one.attempts) for one in records] == [("resulted", 1)] * 4, records
        assert {one.result and one.result.content for one in records} == {"It is done."}
        for request_id in requests:
            entries = host.operator.get("/audit", params={"request_id": request_id}).json()["entries"]
            assert [entry["type"] for entry in entries].count("resulted") == 1
        assert [(home / "workspace/marks").read_text() for home in homes] == ["mark\nmark\n"] * 2
        assert all(runs(host, name) and "restored" in kinds(host, name) for name in names)


def test_what_a_person_has_decided_holds_over_a_restart(tmp_path: Path) -> None:
    with Host(tmp_path / "data") as host:
        for name in ("runs", "stopped", "contained"):
            create(host, name)
        host.mesh.workspaces.create("new")
        host.mesh.workspaces.stop("stopped")
        host.mesh.workspaces.quarantine("contained")
        for kill in (False, True):
            again(host, kill=kill)
            until(lambda: runs(host, "runs"), "it runs again")
            for name in ("stopped", "contained", "new"):
                assert state(host, name) == ("stopped", "stopped")
            with pytest.raises(Quarantined):
                host.mesh.workspaces.start("contained")
        again(host, MESH_RESTORE="false")
        assert state(host, "runs") == ("stopped", "stopped")
        again(host, MESH_RESTORE="true")
        assert state(host, "runs") == ("stopped", "stopped")


def test_one_that_does_not_start_is_told_of_and_tried_again(tmp_path: Path) -> None:
    with Host(tmp_path / "data") as host:
        home = create(host, "broken")
        create(host, "whole")
        assert host.process.terminate(timeout=PATIENCE) == 0
        aside = shutil.move(home, tmp_path / "aside")
        home.touch()  # a file where its folder was
        host.start()
        until(lambda: runs(host, "whole"), "the other one runs")
        until(lambda: "not_restored" in kinds(host, "broken"), "the failure is in the audit trail")
        until(lambda: state(host, "broken") == ("failed", "running"), "so is it in its state")
        assert "File exists" in host.process.output()
        home.unlink()
        shutil.move(aside, home)
        until(lambda: runs(host, "broken"), "it is tried again")
