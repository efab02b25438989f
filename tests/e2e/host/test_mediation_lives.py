"""The listener as a live process: killed at every step, with microagent's example agent, with a second listener."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_testing import LiveProcess
from tests.integration.host.live import OPERATOR, PATIENCE, UP
from tests.ports import free_port
from tests.unit.host.listener.agent import Agent

pytestmark = pytest.mark.slow

LISTEN = [*UP[:-1], "listen"]
GUIDE = Path(__file__).parents[1] / "mediation/seed_agent.py"


class Listening:
    """`agent-host listen` over all its lives; it keeps its port, as agents expect."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.env = {
            "MESH_DATA_DIR": str(folder),
            "MESH_PORT": "0",
            "MESH_ADMIN_TOKEN": OPERATOR,
            "MESH_LISTENER_URL": f"tcp://127.0.0.1:{self.port}",
        }
        self.keys: dict[str, str | None] = {}

    def start(self) -> None:
        self.process = LiveProcess(LISTEN, self.env, timeout=PATIENCE).__enter__()
        url = self.process.wait_for_output(r"agent-host listens on (\S+)")[1]
        headers = {"authorization": f"Bearer {OPERATOR}"}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, trust_env=False)

    def stop(self, *, kill: bool = False) -> None:
        self.http.close()
        if kill:
            self.process.kill9()
        self.process.__exit__(None, None, None)

    def again(self) -> None:
        """Killed, and started anew."""
        self.stop(kill=True)
        self.start()

    def enrol(self, name: str, **more: Any) -> dict[str, Any]:
        made = self.http.post("/workspaces", json={"id": name, **more})
        assert made.status_code == 201, made.text
        self.keys[name] = made.json()["mediation_key"]
        return made.json()

    def submit(self, name: str, request_id: str, content: str = "ping") -> httpx.Response:
        return self.http.post(
            "/work", json={"workspace": name, "request": {"request_id": request_id, "content": content}}
        )

    def record(self, request_id: str) -> dict[str, Any]:
        return self.http.get(f"/work/{request_id}").json()

    def until(self, fits: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not (found := fits()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return found

    def stands(self, request_id: str, status: str) -> dict[str, Any]:
        return self.until(lambda: (record := self.record(request_id))["status"] == status and record)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Listening]:
    host = Listening(tmp_path / "data")
    host.start()
    yield host
    host.stop()


@asynccontextmanager
async def attached(host: Listening, name: str = "a", **resume: tuple[str, ...]) -> AsyncGenerator[Agent]:
    async with Agent(f"tcp://127.0.0.1:{host.port}", name, host.keys[name]) as agent:
        yield await agent.attach(**resume)


async def test_killed_while_it_waits(host: Listening) -> None:
    host.enrol("a")
    assert host.submit("a", "r").status_code == 202
    host.again()
    assert host.record("r")["status"] == "queued"
    assert host.submit("a", "r").status_code == 200
    async with attached(host) as agent:
        assert (await agent.request())["request_id"] == "r"


async def test_killed_after_it_was_sent(host: Listening) -> None:
    host.enrol("a")
    host.submit("a", "r")
    async with attached(host) as agent:
        await agent.request()
        host.again()
    async with attached(host) as agent:
        request = await agent.request()
        agent.accept(request)
        agent.result(request)
        await agent.expect("ack")
        assert host.record("r")["attempts"] == 1, "it was never begun"


@pytest.mark.parametrize("remembers", [True, False])
async def test_killed_while_the_agent_works(host: Listening, remembers: bool) -> None:
    host.enrol("a")
    host.submit("a", "r")
    async with attached(host) as agent:
        request = await agent.request()
        agent.accept(request)
        await asyncio.to_thread(host.stands, "r", "accepted")
        await asyncio.sleep(0.1)  # what is only noted is on the disk by then
        host.again()
    async with attached(host, running=("r",) if remembers else ()) as agent:
        if remembers:
            assert agent.verdicts == {"r": "continue"}
        else:
            request = await agent.request()
            agent.accept(request)
        agent.result(request)
        await agent.expect("ack")
        record = host.record("r")
        assert (record["status"], record["attempts"]) == ("resulted", 1 if remembers else 2)


async def test_killed_before_it_has_said_that_it_has_the_result(host: Listening) -> None:
    host.enrol("a")
    for number in range(10):
        host.submit("a", f"r{number}")
    got: list[str] = []
    async with attached(host) as agent:
        for number in range(4):
            request = await agent.request()
            got.append(request["request_id"])
            agent.accept(request)
            agent.result(request, content=f"result of {number}")
        host.again()  # somewhere between reading it and acknowledging it
    async with attached(host, unacked=tuple(got)) as agent:
        for name, verdict in agent.verdicts.items():
            assert verdict in ("resend", "forget")
            if verdict == "resend":
                agent.result({"request_id": name, "audit_ref": "x"}, content="sent again")
        serving = asyncio.create_task(agent.serve())
        for name in got:
            record = await asyncio.to_thread(host.stands, name, "resulted")
            assert record["result"]["content"].startswith(("result of", "sent again"))
        for number in range(10):
            record = await asyncio.to_thread(host.stands, f"r{number}", "resulted")
            assert record["attempts"] == 1
        serving.cancel()


async def test_killed_after_the_result(host: Listening) -> None:
    host.enrol("a")
    host.submit("a", "r")
    async with attached(host) as agent:
        request = await agent.request()
        agent.accept(request)
        agent.result(request)
        await agent.expect("ack")
        host.again()
    record = host.record("r")
    assert (record["status"], record["result"]["content"]) == ("resulted", "did ping")
    async with attached(host, unacked=("r",)) as agent:
        assert agent.verdicts == {"r": "forget"}
        agent.result(request, content="again")
        await agent.expect("ack")
    assert host.record("r") == record


def test_the_guides_agent(host: Listening, tmp_path: Path) -> None:
    port = free_port()
    host.enrol("loose", dialect="loose", auth="none", listen=f"tcp://127.0.0.1:{port}")
    with LiveProcess([sys.executable, str(GUIDE), str(port)]) as agent:
        for number in range(3):
            assert host.submit("loose", f"r{number}").status_code == 202
            record = host.stands(f"r{number}", "resulted")
            assert (record["result"]["status"], record["result"]["content"]) == ("completed", "pong")
        agent.wait_for_output("got request r2")
        host.submit("loose", "last")
        host.stands("last", "resulted")
        host.stop(kill=True)
        assert agent.wait(PATIENCE) == 0, "it ends when the host closes the channel"
        host.start()
    host.submit("loose", "later")
    assert host.record("later")["status"] == "queued"
    with LiveProcess([sys.executable, str(GUIDE), str(port)]):
        host.stands("later", "resulted")


def test_two_listeners_on_one_ledger(host: Listening, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'data' / 'mesh.db'}"
    env = {**host.env, "MESH_DATA_DIR": str(tmp_path / "other"), "MESH_DATABASE_URL": database}
    env["MESH_LISTENER_URL"] = "tcp://127.0.0.1:0"
    with LiveProcess(LISTEN, env) as second:
        assert second.wait(PATIENCE) == 1
        assert "another listener works on this ledger" in second.output()
        assert "Traceback" not in second.output()
    assert host.http.get("/readyz").status_code == 200


def test_the_port_of_another_is_said(host: Listening, tmp_path: Path) -> None:
    with LiveProcess(LISTEN, {**host.env, "MESH_DATA_DIR": str(tmp_path / "other")}) as second:
        assert second.wait(PATIENCE) == 1
        assert "MESH_LISTENER_URL" in second.output()
        assert "in use" in second.output()
