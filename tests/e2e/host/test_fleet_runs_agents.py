"""The mesh and a real runtime, as two processes: the fleet starts it, it does its work through the proxy, it ends."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from agent_client import NotRunning, TaskFailed, Workspace
from agent_client.sync import SyncAgent
from agent_testing import Fail, Hang, Say, ScriptedProvider
from tests.integration.host.live import PATIENCE, Host, catalog

pytestmark = pytest.mark.slow

SALES = Path(__file__).parents[3] / "examples/sales"
TASK = {"instructions": "Read brief.md and do what it asks, with code that reads sales.csv."}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with the demo model and its larger script, as `make mesh` starts it."""
    host = Host(tmp_path_factory.mktemp("mesh"))
    host.command = [sys.executable, "-m", "examples.demo.host", "up"]
    with host:
        yield host


def start(host: Host, agent_id: str) -> tuple[SyncAgent, Workspace]:
    """A new workspace with its runtime ready; gives its agent, and the workspace."""
    host.mesh.workspaces.create(agent_id)
    started = host.mesh.workspaces.start(agent_id)
    assert started.state == "running"
    return host.mesh.agent(agent_id), started


def test_the_demo_task_from_end_to_end(host: Host) -> None:
    agent, made = start(host, "reporter")
    home = Path(made.data_dir) / "workspace"
    shutil.copytree(SALES, home, dirs_exist_ok=True)
    first = agent.submit(TASK).outcome()
    assert first.status == "complete", first
    found: dict[str, Any] = first.result or {}
    assert found["orders"] == 300
    assert "demo model" in found["note"]
    assert first.promote_to_blackboard["sales/top_product"] == found["top_product"]
    assert f"{found['total']:.2f}" in (home / "report.md").read_text()
    assert "median_order" in agent.capabilities().tools, "the agent has made itself a tool"

    host.mesh.workspaces.stop("reporter")
    host.mesh.workspaces.start("reporter")
    with (home / "sales.csv").open("a") as file:
        file.write("SO-9999,2026-06-30,Moon,Cheese,1000,1000.00\n")
    second = agent.submit(TASK).outcome()
    more: dict[str, Any] = second.result or {}
    assert more["orders"] == 301
    assert more["total"] == pytest.approx(found["total"] + 1_000_000)
    assert (more["top_region"], more["top_product"]) == ("Moon", "Cheese")
    assert more["median_by_region"] == {**found["median_by_region"], "Moon": 1_000_000.0}

    rows = host.recent(agent="reporter", limit=100)
    assert len(rows) == 11 + 9, "each step of both tasks is one call; the second task finds the tool made"
    assert {row["status"] for row in rows} == {"complete"}
    used = sum(row["usage"]["input"] + row["usage"]["output"] for row in rows)
    assert used == first.tokens_used + second.tokens_used


def test_a_task_without_its_files_ends_truthfully(host: Host) -> None:
    agent, _ = start(host, "empty-handed")
    assert "looking for the brief and the CSV file failed" in agent.run(TASK)["error"]


def test_chatting_with_the_demo_model(host: Host) -> None:
    agent, _ = start(host, "talker")
    assert "[demo model]" in agent.ask("Hello there").text
    ran = agent.ask("run: echo one two")
    assert "ended with 0 and printed:\n\n    one two" in ran.text
    assert [call.name for call in ran.tool_results] == ["bash"]


def test_a_stopped_runtime_keeps_its_memory_and_place(host: Host) -> None:
    agent, made = start(host, "sleeper")
    agent.ask("Hello there", session="kept")
    assert host.mesh.workspaces.stop("sleeper").state == "stopped"
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{made.url}/healthz", trust_env=False)
    with pytest.raises(NotRunning):
        agent.status()
    again = host.mesh.workspaces.start("sleeper")
    assert (again.state, again.url) == ("running", made.url)
    assert agent.status().agent_id == "sleeper"
    assert len(list(agent.sessions.messages("kept"))) == 2


def test_a_key_that_is_refused_is_the_agents_model_auth(tmp_path: Path) -> None:
    with (
        ScriptedProvider([Fail(401, "no"), Say("fine")]) as provider,
        Host(tmp_path / "data", MESH_MODELS=catalog(tmp_path, provider), UPSTREAM_KEY="sk-1") as host,
    ):
        agent, _ = start(host, "asker")
        with pytest.raises(TaskFailed, match="is failed") as refused:
            agent.run("anything")
        assert refused.value.code == "model_auth"
        assert agent.run("anything") == {"text": "fine"}


def test_a_host_that_stops_serves_the_last_step_of_its_runtimes(tmp_path: Path) -> None:
    settings = {"MESH_MODELS": tmp_path / "models.yaml", "UPSTREAM_KEY": "sk-1"}
    with ScriptedProvider([Hang(after=1, reply=Say("the whole answer"))]) as provider:
        catalog(tmp_path, provider)
        with Host(tmp_path / "data", **settings) as host:
            agent, made = start(host, "busy")
            agent.submit(TASK)
            provider.wait_for(1)
            os.kill(host.process.pid, signal.SIGTERM)
            with httpx.Client(base_url=made.url, trust_env=False) as runtime:
                deadline = time.monotonic() + PATIENCE
                while runtime.get("/readyz").json()["reasons"] != ["draining"]:
                    assert time.monotonic() < deadline, "the runtime was not told to stop"
            provider.release()
            assert host.process.wait(PATIENCE) == 0
    with closing(sqlite3.connect(tmp_path / "data/mesh.db")) as database:
        assert database.execute("SELECT agent_id, status FROM model_calls").fetchall() == [("busy", "complete")]


def test_no_runtime_outlives_a_host_that_is_killed(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        start(host, "orphan")
        family = psutil.Process(host.process.pid).children(recursive=True)
        assert any("agent_runtime" in " ".join(child.cmdline()) for child in family)
        host.process.kill9()
        _, alive = psutil.wait_procs(family, timeout=60)
        assert alive == []
        host.start()
        assert host.mesh.workspaces.start("orphan").state == "running"


def test_a_host_that_stops_takes_its_runtimes_along(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        start(host, "child")
        family = psutil.Process(host.process.pid).children(recursive=True)
        began = time.monotonic()
        assert host.process.terminate(timeout=PATIENCE) == 0
        assert time.monotonic() - began < 10
        assert [child for child in family if child.is_running()] == []
