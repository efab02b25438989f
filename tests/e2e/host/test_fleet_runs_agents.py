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

from agent_testing import Hang, Say, ScriptedProvider
from tests.integration.host.live import PATIENCE, Host, catalog

pytestmark = pytest.mark.slow

SALES = Path(__file__).parents[3] / "examples/sales"
TASK = {
    "workflow_id": "w",
    "step_id": "s",
    "task_type": "sales_report",
    "input_data": {"instructions": "Read brief.md and do what it asks, with code that reads sales.csv."},
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with the demo model and its larger script, as `make mesh` starts it."""
    host = Host(tmp_path_factory.mktemp("mesh"))
    host.command = [sys.executable, "-m", "examples.demo.host", "up"]
    with host:
        yield host


def start(host: Host, agent_id: str) -> tuple[httpx.Client, dict[str, Any]]:
    """A new workspace with its runtime ready; gives the client of its face and the workspace."""
    made = host.operator.post("/workspaces", json={"id": agent_id})
    assert made.status_code == 201, made.text
    started = host.operator.post(f"/workspaces/{agent_id}/start")
    assert started.status_code == 200, started.text
    assert started.json()["state"] == "running"
    headers = {"authorization": f"Bearer {made.json()['token']}"}
    return httpx.Client(base_url=made.json()["url"], headers=headers, timeout=PATIENCE, trust_env=False), made.json()


def result_of(agent: httpx.Client, task: dict[str, Any]) -> dict[str, Any]:
    task_id = agent.post("/task", json=task).json()["task_id"]
    reply = agent.get("/result", params={"task_id": task_id, "wait": PATIENCE - 1})
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_the_demo_task_from_end_to_end(host: Host) -> None:
    agent, made = start(host, "reporter")
    home = Path(made["data_dir"]) / "workspace"
    with agent:
        shutil.copytree(SALES, home, dirs_exist_ok=True)
        first = result_of(agent, TASK)
        assert first["status"] == "complete", first
        assert first["result"]["orders"] == 300
        assert "demo model" in first["result"]["note"]
        assert first["promote_to_blackboard"]["sales/top_product"] == first["result"]["top_product"]
        assert f"{first['result']['total']:.2f}" in (home / "report.md").read_text()
        assert "median_order" in agent.get("/capabilities").json()["tools"], "the agent has made itself a tool"

        for action in ("stop", "start"):
            assert host.operator.post(f"/workspaces/reporter/{action}").is_success
        with (home / "sales.csv").open("a") as file:
            file.write("SO-9999,2026-06-30,Moon,Cheese,1000,1000.00\n")
        second = result_of(agent, TASK)
        assert second["result"]["orders"] == 301
        assert second["result"]["total"] == pytest.approx(first["result"]["total"] + 1_000_000)
        assert (second["result"]["top_region"], second["result"]["top_product"]) == ("Moon", "Cheese")
        assert second["result"]["median_by_region"] == {**first["result"]["median_by_region"], "Moon": 1_000_000.0}

    rows = host.recent(agent="reporter", limit=100)
    assert len(rows) == 11 + 9, "each step of both tasks is one call; the second task finds the tool made"
    assert {row["status"] for row in rows} == {"complete"}
    used = sum(row["usage"]["input"] + row["usage"]["output"] for row in rows)
    assert used == first["tokens_used"] + second["tokens_used"]


def test_a_task_without_its_files_ends_truthfully(host: Host) -> None:
    agent, _ = start(host, "empty-handed")
    with agent:
        result = result_of(agent, TASK)
    assert result["status"] == "complete"
    assert "looking for the brief and the CSV file failed" in result["result"]["error"]


def test_chatting_with_the_demo_model(host: Host) -> None:
    agent, _ = start(host, "talker")
    with agent:
        hello = agent.post("/chat", json={"message": "Hello there"}).json()
        assert "[demo model]" in hello["response"]
        ran = agent.post("/chat", json={"message": "run: echo one two"}).json()
        assert "ended with 0 and printed:\n\none two" in ran["response"]
        assert [call["name"] for call in ran["tool_outputs"]] == ["bash"]


def test_a_stopped_runtime_keeps_its_memory_and_place(host: Host) -> None:
    agent, made = start(host, "sleeper")
    with agent:
        assert agent.post("/chat", json={"message": "Hello there"}).status_code == 200
        assert host.operator.post("/workspaces/sleeper/stop").json()["state"] == "stopped"
        with pytest.raises(httpx.TransportError):
            agent.get("/status")
        again = host.operator.post("/workspaces/sleeper/start").json()
        assert (again["state"], again["url"]) == ("running", made["url"])
        assert agent.get("/status").json()["agent_id"] == "sleeper"


def test_a_key_that_is_refused_is_the_agents_model_auth(tmp_path: Path) -> None:
    from agent_testing import Fail

    with (
        ScriptedProvider([Fail(401, "no"), Say("fine")]) as provider,
        Host(tmp_path / "data", MESH_MODELS=catalog(tmp_path, provider), UPSTREAM_KEY="sk-1") as host,
    ):
        agent, _ = start(host, "asker")
        with agent:
            refused = result_of(agent, {**TASK, "input_data": {"ask": "anything"}})
            assert (refused["status"], refused["error_code"]) == ("failed", "model_auth")
            assert result_of(agent, {**TASK, "input_data": {"ask": "anything"}})["result"] == {"text": "fine"}


def test_a_host_that_stops_serves_the_last_step_of_its_runtimes(tmp_path: Path) -> None:
    settings = {"MESH_MODELS": tmp_path / "models.yaml", "UPSTREAM_KEY": "sk-1"}
    with ScriptedProvider([Hang(after=1, reply=Say("the whole answer"))]) as provider:
        catalog(tmp_path, provider)
        with Host(tmp_path / "data", **settings) as host:
            agent, _ = start(host, "busy")
            with agent:
                agent.post("/task", json=TASK)
                provider.wait_for(1)
                os.kill(host.process.pid, signal.SIGTERM)
                deadline = time.monotonic() + PATIENCE
                while agent.get("/readyz").json()["reasons"] != ["draining"]:
                    assert time.monotonic() < deadline, "the runtime was not told to stop"
                provider.release()
            assert host.process.wait(PATIENCE) == 0
    with closing(sqlite3.connect(tmp_path / "data/mesh.db")) as database:
        assert database.execute("SELECT agent_id, status FROM model_calls").fetchall() == [("busy", "complete")]


def test_no_runtime_outlives_a_host_that_is_killed(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        agent, _ = start(host, "orphan")
        agent.close()
        family = psutil.Process(host.process.pid).children(recursive=True)
        assert any("agent_runtime" in " ".join(child.cmdline()) for child in family)
        host.process.kill9()
        _, alive = psutil.wait_procs(family, timeout=3)
        assert alive == []
        host.start()
        assert host.operator.get("/workspaces/orphan").json()["state"] == "stopped"
        assert host.operator.post("/workspaces/orphan/start").json()["state"] == "running"


def test_a_host_that_stops_takes_its_runtimes_along(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        agent, _ = start(host, "child")
        agent.close()
        family = psutil.Process(host.process.pid).children(recursive=True)
        began = time.monotonic()
        assert host.process.terminate(timeout=PATIENCE) == 0
        assert time.monotonic() - began < 10
        assert [child for child in family if child.is_running()] == []
