"""A workflow of five tasks over three agents, whose results pass by promotions and artifacts alone.

The host is killed with -9 as soon as it has recorded each result, before the agent knows, so that the agent sends each
again; at the end each result is sent once more. Nothing of it changes what is shared.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, FakeBridge, Recorded, Say, ScriptedProvider, Step
from agent_testing.bridge import Trip
from tests.integration.host.live import Host
from tests.integration.host.members import make_token
from tests.integration.host.reporting import made, report
from tests.ports import free_port

from ..live import Runtime, assignment, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TEAM = "mill"
ROWS = "name,kg\nrye,3\noats,4\n"
REPORT = "The mill has 2 kinds of grain, 7 kg in all."


def ends(promote: dict[str, Any]) -> Say:
    return Say(json.dumps({"result": {"done": True}, "promote": promote}))


def collect(tools: list[dict[str, Any]]) -> Step:
    if not tools:
        return Call("write", {"path": "grain.csv", "content": ROWS})
    if len(tools) == 1:
        return Call("save_artifact", {"path": "grain.csv", "name": "mill/grain.csv"})
    return ends({"mill/collected": {"name": "mill/grain.csv", "version": tools[1]["version"]}})


def count(tools: list[dict[str, Any]]) -> Step:
    if not tools:
        return Call("read_blackboard", {"key": "mill/collected"})
    found = tools[0]["value"]
    if len(tools) == 1:
        return Call("get_artifact", {"name": found["name"], "version": found["version"], "path": "in.csv"})
    if len(tools) == 2:
        return Call("read", {"path": "in.csv"})
    _, *rows = tools[2]["content"].split()
    return ends({"mill/counted": {"kinds": len(rows), "kg": sum(int(row.split(",")[1]) for row in rows)}})


def describe(tools: list[dict[str, Any]]) -> Step:
    if not tools:
        return Call("read_blackboard", {"key": "mill/counted"})
    found = tools[0]["value"]
    return ends({"mill/described": f"The mill has {found['kinds']} kinds of grain, {found['kg']} kg in all."})


def print_out(tools: list[dict[str, Any]]) -> Step:
    if not tools:
        return Call("read_blackboard", {"key": "mill/described"})
    if len(tools) == 1:
        return Call("write", {"path": "report.md", "content": tools[0]["value"]})
    if len(tools) == 2:
        return Call("save_artifact", {"path": "report.md", "name": "mill/report.md"})
    return ends({"mill/printed": {"name": "mill/report.md", "sha256": tools[2]["sha256"]}})


def check(tools: list[dict[str, Any]]) -> Step:
    if not tools:
        return Call("read_blackboard", {"key": "mill/printed"})
    if len(tools) == 1:
        return Call("get_artifact", {"name": tools[0]["value"]["name"], "path": "report.md"})
    return ends({"mill/checked": tools[0]["value"]["sha256"] == tools[1]["sha256"]})


WORK = {"collect": collect, "count": count, "describe": describe, "print": print_out, "check": check}
STEPS = [("collect", "ann"), ("count", "bob"), ("describe", "cat"), ("print", "ann"), ("check", "bob")]
KEYS = ["mill/collected", "mill/counted", "mill/described", "mill/printed", "mill/checked"]
"""What each step promotes."""
BY_THE_HOST = ("count", "print")
"""Steps that the host gives to the agent as work; the others are posted to the agent itself."""


def model(request: Recorded) -> Step:
    """Knows nothing but what stands in the task and what the tools of the turn have answered."""
    step = next(name for name in WORK if f"do-{name}" in request.last_user_text)
    answers = [json.loads(str(one["content"])) for one in request.messages if one["role"] == "tool"]
    assert all(answer["type"] == "output" for answer in answers), answers
    return WORK[step]([answer["data"] for answer in answers])


class Mill:
    """The host, the three agents and the bridges of their channels."""

    def __init__(self, host: Host, agents: dict[str, Runtime], bridges: dict[str, FakeBridge]) -> None:
        self.host = host
        self.agents = agents
        self.bridges = bridges

    def start_step(self, step: str, agent: str) -> None:
        task = assignment(task_id=f"task-{step}", workflow_id="mill", step_id=step, input_data={"ask": f"do-{step}"})
        if step in BY_THE_HOST:
            self.host.mesh.work.submit(
                agent, {name: task[name] for name in task if name != "task_id"}, id=f"task-{step}"
            )
        else:
            self.agents[agent].assign(**task)

    def result(self, step: str) -> dict[str, Any] | None:
        reply = self.host.operator.get("/results", params={"task_id": f"task-{step}"})
        return reply.json() if reply.status_code == 200 else None

    def owed(self, agent: str) -> int:
        """How many results the agent has on its disk that it does not know to be at the host."""
        reports = "SELECT count(*) FROM task_reports"
        works = "SELECT count(*) FROM work WHERE result_json IS NOT NULL AND acked_at IS NULL"
        ((count,),) = self.agents[agent].sql(f"SELECT ({reports}) + ({works})")
        return count

    def kill_host(self) -> None:
        os.kill(self.host.process.pid, signal.SIGKILL)
        self.host.process.wait(60)

    def recorded(self, step: str) -> tuple[int, int]:
        """How many rows of the result and of the key that it promotes are on the disk of a host that is dead."""
        key = KEYS[[name for name, _ in STEPS].index(step)]
        with closing(sqlite3.connect(f"file:{self.host.data_dir / 'mesh.db'}", uri=True)) as database:
            (results,) = database.execute(
                "SELECT count(*) FROM task_results WHERE task_id = ?", [f"task-{step}"]
            ).fetchone()
            (entries,) = database.execute("SELECT count(*) FROM blackboard_changes WHERE key = ?", [key]).fetchone()
        return results, entries

    def attached(self, agent: str) -> bool:
        return self.host.mesh.workspaces.get(agent).mediation_ready.ready  # pyright: ignore[reportOptionalMemberAccess]

    def everything(self) -> dict[str, Any]:
        """All that the team shares, with versions, histories and contents, and what was recorded."""
        team = self.host.mesh.team(TEAM)
        return {
            "entries": list(team.blackboard.list()),
            "histories": [list(team.blackboard.history(key)) for key in KEYS if self.result(step_of(key))],
            "artifacts": [(one, team.artifacts.read(one.name)) for one in team.artifacts.list()],
            "results": [self.result(step) for step, _ in STEPS],
        }


def step_of(key: str) -> str:
    return STEPS[KEYS.index(key)][0]


@pytest.fixture
async def mill(tmp_path: Path) -> AsyncIterator[Mill]:
    async with AsyncExitStack() as stack:
        provider = stack.enter_context(ScriptedProvider(model))
        address = f"tcp://127.0.0.1:{free_port()}"
        host = stack.enter_context(Host(tmp_path / "mesh", MESH_PORT=free_port(), MESH_LISTENER_URL=address))
        agents: dict[str, Runtime] = {}
        bridges: dict[str, FakeBridge] = {}
        for name in ("ann", "bob", "cat"):
            (tmp_path / name).mkdir()
            workspace = made(host, name, team=TEAM)
            (tmp_path / name / "key").write_text(workspace["mediation_key"])
            bridges[name] = await stack.enter_async_context(FakeBridge("tcp://127.0.0.1:0", address))
            settings = {
                "AGENT_ID": name,
                "AGENT_MESH_URL": host.url,
                "AGENT_MESH_TOKEN": make_token(host, name),
                "AGENT_MEDIATION_URL": bridges[name].url,
                "AGENT_MEDIATION_KEY_FILE": tmp_path / name / "key",
            }
            agents[name] = Runtime(provider, tmp_path / name / "data", **settings)
            await asyncio.to_thread(agents[name].start)
            stack.callback(agents[name].__exit__, None, None, None)
        yield Mill(host, agents, bridges)


async def carry_out(mill: Mill, step: str, agent: str) -> None:
    """One step: the host is killed when it has the result, and the agent has not heard of it and sends it again. In one
    of the steps the host is killed before it has the result, too."""
    bridge = mill.bridges[agent]
    heard = Trip("stall", mark=b'"ack"' if step in BY_THE_HOST else b"task_ack")
    await asyncio.to_thread(eventually, lambda: mill.attached(agent))
    bridge.trip("to_guest", heard)
    if step == "describe":
        bridge.trip("to_host", Trip("stall", mark=b"task_result"))
    await asyncio.to_thread(mill.start_step, step, agent)
    if step == "describe":
        await asyncio.to_thread(mill.agents[agent].result, f"task-{step}")
        await restart(mill, step, agent, recorded=(0, 0), heard=heard)
    await asyncio.to_thread(eventually, lambda: mill.result(step))
    before = await asyncio.to_thread(mill.everything)
    await restart(mill, step, agent, recorded=(1, 1))
    await asyncio.to_thread(eventually, lambda: mill.owed(agent) == 0)
    assert await asyncio.to_thread(mill.everything) == before


async def restart(mill: Mill, step: str, agent: str, recorded: tuple[int, int], heard: Trip | None = None) -> None:
    """Kill the host, look at its disk, and start it again. `heard`: what stops the next channel."""
    await asyncio.to_thread(mill.kill_host)
    assert mill.recorded(step) == recorded, "the result and what it promotes are written together"
    assert mill.owed(agent) == 1
    mill.bridges[agent].host_is_down = True
    mill.bridges[agent].cut()
    if heard is not None:
        mill.bridges[agent].trip_each("to_guest", [heard])
    await asyncio.to_thread(mill.host.start)
    mill.bridges[agent].host_is_down = False


async def test_results_pass_once_whatever_is_sent_again(mill: Mill) -> None:
    for step, agent in STEPS:
        await carry_out(mill, step, agent)
    await asyncio.to_thread(assert_shared, mill)
    await asyncio.to_thread(assert_provenance, mill)
    before = await asyncio.to_thread(mill.everything)
    for agent in mill.agents.values():
        await asyncio.to_thread(agent.process.terminate)
    for step, agent in STEPS:
        await asyncio.to_thread(send_again, mill, step, agent)
        assert await asyncio.to_thread(mill.everything) == before, step


def assert_shared(mill: Mill) -> None:
    team = mill.host.mesh.team(TEAM)
    entries = {entry.key: (entry.value, entry.version) for entry in team.blackboard.list()}
    digest = hashlib.sha256(REPORT.encode()).hexdigest()
    assert entries == {
        "mill/collected": ({"name": "mill/grain.csv", "version": 1}, 1),
        "mill/counted": ({"kinds": 2, "kg": 7}, 1),
        "mill/described": (REPORT, 1),
        "mill/printed": ({"name": "mill/report.md", "sha256": digest}, 1),
        "mill/checked": (True, 1),
    }
    assert {one.name: one.version for one in team.artifacts.list()} == {"mill/grain.csv": 1, "mill/report.md": 1}
    assert team.artifacts.read("mill/grain.csv") == ROWS.encode()
    assert team.artifacts.read("mill/report.md") == REPORT.encode()
    for key in KEYS:
        assert [change.version for change in team.blackboard.history(key)] == [1]
    for (step, _), key in zip(STEPS, KEYS, strict=True):
        result = mill.result(step)
        assert result is not None
        assert result["promotions"] == [{"key": key, "outcome": "created", "version": 1}]


def assert_provenance(mill: Mill) -> None:
    """From each key and artifact to the task and the session that made it, in which its tool calls stand."""
    team = mill.host.mesh.team(TEAM)
    made_by = {entry.key: entry for entry in team.blackboard.list()} | {one.name: one for one in team.artifacts.list()}
    makers = dict(zip(KEYS, STEPS, strict=True))
    makers |= {"mill/grain.csv": ("collect", "ann"), "mill/report.md": ("print", "ann")}
    assert made_by.keys() == makers.keys()
    for name, (step, agent) in makers.items():
        thing = made_by[name]
        assert (thing.updated_by, thing.cause.task) == (agent, f"task-{step}"), name
        record = mill.agents[agent].record(f"task-{step}")
        assert thing.cause.session == record["session_id"], name
        session = mill.agents[agent].get(f"/sessions/{thing.cause.session}/messages")
        assert session.status_code == 200
        assert f"do-{step}" in session.text


def send_again(mill: Mill, step: str, agent: str) -> None:
    """The result of a step, as the agent's channel would bring it."""
    row = mill.result(step)
    assert row is not None
    key = (mill.agents[agent].data_dir.parent / "key").read_text()
    workspace = {**mill.host.operator.get(f"/workspaces/{agent}").json(), "mediation_key": key}
    again = {"task_id": row["task_id"], "user": row["user"], "finished_at": row["finished_at"], "result": row["result"]}
    report(workspace, again, again)
