"""How much of our code one request runs through: files, functions, and switches from file to file, on live servers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from agent_testing import LiveProcess

from .load import Samples
from .targets import Live

TOKEN = "hops"
AGENT = "hops"
HELLO = "say:All is well."
WRITE = 'tool:write:{"path": "hops.txt", "content": "one line"}'
TOOLS = {
    "read": 'tool:read:{"path": "hops.txt", "limit": 1}',
    "bash": 'tool:bash:{"command": "true"}',
}
FLOWS = ("second turn", "new session", "read", "bash", "task", "work, guest", "work, host")
COUNTS = ("files", "functions", "switches")
_PATIENCE = 60.0
_QUIET_SECONDS = 1.0
"""What an earlier request leaves to be done in the background is over by then."""


class Counted:
    """A server that counts what it runs through."""

    def __init__(self, process: LiveProcess, path: Path, url: str) -> None:
        self._process, self._path, self.url = process, path, url

    @asynccontextmanager
    async def count(self, into: Samples, flow: str) -> AsyncGenerator[None]:
        """Counts what happens meanwhile, as `FLOW files`, `FLOW functions` and `FLOW switches`."""
        self._path.unlink(missing_ok=True)
        await asyncio.sleep(_QUIET_SECONDS)
        os.kill(self._process.pid, signal.SIGUSR1)
        yield
        os.kill(self._process.pid, signal.SIGUSR1)
        async with asyncio.timeout(_PATIENCE):
            while not self._path.exists():
                await asyncio.sleep(0.01)
        found = json.loads(self._path.read_text("utf-8"))
        for name in COUNTS:
            into[f"{flow} {name}"] = [found[name]]


@asynccontextmanager
async def counted(
    folder: Path, module: str, command: str, *, printed: str, env: Mapping[str, str]
) -> AsyncGenerator[Counted]:
    """Runs the module's command. The group of the pattern `printed` is its URL."""
    path = folder / f"{module}.json"
    argv = [sys.executable, "-m", "tests.bench.hops_program", str(path), module, command]
    with LiveProcess(argv, env, timeout=_PATIENCE) as process:
        url = (await asyncio.to_thread(process.wait_for_output, printed))[1]
        yield Counted(process, path, url)


async def hops(_live: Live, provider: str) -> Samples:
    """A turn that is not the first, a new session, a task, calls of two tools, and work from the host."""
    samples: Samples = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        mesh = {
            "MESH_DATA_DIR": str(folder / "mesh"),
            "MESH_PORT": "0",
            "MESH_LISTENER_URL": "tcp://127.0.0.1:0",
            "MESH_ADMIN_TOKEN": TOKEN,
        }
        async with (
            counted(folder, "agent_host", "listen", printed=r"agent-host listens on (http://\S+)", env=mesh) as host,
            _client(host.url) as operator,
        ):
            made = (await operator.post("/workspaces", json={"id": AGENT})).json()
            key = folder / "key"
            key.write_text(made["mediation_key"])
            env = {
                "AGENT_ID": AGENT,
                "AGENT_PORT": "0",
                "AGENT_DATA_DIR": str(folder / "data"),
                "AGENT_LLM_BASE_URL": provider,
                "AGENT_MEDIATION_URL": made["mediation_url"],
                "AGENT_MEDIATION_KEY_FILE": str(key),
            }
            printed = r'"url": ?"(http://[^"]+)"'
            async with (
                counted(folder, "agent_runtime", "serve", printed=printed, env=env) as guest,
                _client(guest.url) as caller,
            ):
                await _requests(guest, caller, samples)
                await _work(host, guest, operator, samples)
    return samples


def _client(url: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {TOKEN}"}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=_PATIENCE, trust_env=False)


async def _requests(guest: Counted, caller: httpx.AsyncClient, samples: Samples) -> None:
    async def chat(message: str, session: str) -> None:
        reply = await caller.post("/chat", json={"message": message, "session_id": session})
        reply.raise_for_status()
        states = [call["state"] for call in reply.json()["tool_outputs"]]
        assert all(state == "output-available" for state in states), reply.text

    await chat(WRITE, "warm-0")
    for number in range(2):  # what is loaded once is loaded now
        await chat(HELLO, f"warm-{number}")
        for tool in TOOLS.values():
            await chat(tool, f"warm-{number}")
    async with guest.count(samples, "second turn"):
        await chat(HELLO, "warm-0")
    async with guest.count(samples, "new session"):
        await chat(HELLO, "new")
    for name, tool in TOOLS.items():
        async with guest.count(samples, name):
            await chat(tool, "warm-0")
    for number in range(2):
        async with guest.count(samples, "task"):
            task = {
                "task_id": f"hops-{number}",
                "workflow_id": "hops",
                "step_id": "hops",
                "task_type": "hops",
                "input_data": {"ask": HELLO},
            }
            (await caller.post("/task", json=task)).raise_for_status()
            reply = await caller.get("/result", params={"task_id": f"hops-{number}", "wait": 30})
            assert reply.status_code == 200, reply.text


async def _work(host: Counted, guest: Counted, operator: httpx.AsyncClient, samples: Samples) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not (await operator.get(f"/workspaces/{AGENT}")).json()["mediationReady"]["ready"]:
            await asyncio.sleep(0.05)
    for number in range(2):
        async with host.count(samples, "work, host"), guest.count(samples, "work, guest"):
            work = {"request_id": f"hops-{number}", "content": HELLO}
            (await operator.post("/work", json={"workspace": AGENT, "request": work})).raise_for_status()
            stream = await operator.get(f"/work/hops-{number}/stream")  # to its end
            assert '"resulted"' in stream.text, stream.text
