"""Real servers of the `mcp` package behind real connectors, and the tools as the loop gets them."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_common.protocol.authority import Authority
from agent_runtime.connectors import ConnectorDeps, ConnectorManager, Timeouts
from agent_runtime.connectors.config.config import parse_servers
from agent_runtime.ports import ToolContext, ToolResult
from agent_runtime.sandbox import Confinement, SandboxLimits
from agent_runtime.tools import ToolGate, ToolRegistry
from agent_runtime.workspace import Home
from agent_testing import LiveProcess
from tests.ports import free_port

from ..conftest import Hold

HERE = Path(__file__).parent
DEMO = HERE / "demo_server.py"
QUICK = Timeouts(first_wait=30, backoff=(0.05, 0.1), relist=0.05)


def demo(*arguments: str, **more: Any) -> dict[str, Any]:
    """The demo server as a local one."""
    return {"command": sys.executable, "args": [str(DEMO), "stdio", *arguments], "read": [str(HERE)], **more}


def script(code: str, **more: Any) -> dict[str, Any]:
    """A program of the test's own as a local server."""
    return {"command": sys.executable, "args": ["-c", code], **more}


@dataclass
class Plant:
    """Servers over a home."""

    home: Home
    confinement: Confinement
    connectors: ConnectorManager
    context: ToolContext
    gate: ToolGate

    async def prepare(self, authority: Authority | None = None) -> None:
        await self.connectors.ready(authority or Authority())

    @property
    def names(self) -> list[str]:
        return [tool.spec.name for tool in self.connectors.tools()]

    async def call(self, name: str, /, **arguments: Any) -> ToolResult:
        """One call, of the tools as they are now."""
        result = await ToolRegistry((), self.connectors, gate=self.gate).snapshot().run(name, arguments, self.context)
        assert isinstance(result, ToolResult)
        return result

    async def value(self, name: str, /, **arguments: Any) -> Any:
        result = await self.call(name, **arguments)
        assert result.type == "output", result.error_text
        return result.data

    async def error(self, name: str, /, **arguments: Any) -> str:
        result = await self.call(name, **arguments)
        assert result.type == "error", result.data
        assert result.error_text
        return result.error_text

    def state(self, name: str) -> Any:
        return next(one for one in self.connectors.servers() if one.name == name)


Grow = Callable[..., Plant]


@pytest.fixture
async def grow(tmp_path: Path, hold: Hold) -> AsyncIterator[Grow]:
    """`grow(demo=demo())` makes connectors over these servers. In the end no process is left behind."""
    home = Home(tmp_path / "data")
    home.prepare()
    confinement = await hold(home.data_dir)
    home = home.with_owner(confinement.uid)
    plants: list[Plant] = []

    def make(
        patience: Timeouts = QUICK,
        gate: ToolGate | None = None,
        environment: dict[str, str] | None = None,
        ground: Any = None,
        **named: Any,
    ) -> Plant:
        found = parse_servers({"mcpServers": named}, home.data_dir, environment or {})
        stands: dict[str, Any] = {"upstream": None, **(ground or {})}
        connectors = ConnectorManager(
            found,
            ConnectorDeps(confinement, home.workspace, SandboxLimits(processes=100), home.data_dir, **stands),
            patience,
        )
        context = ToolContext("ses_1", "call_1", home.workspace, home.make_scratch("ses_1"))
        plants.append(Plant(home, confinement, connectors, context, gate or ToolGate(timeout=20)))
        return plants[-1]

    before = set(offspring())
    yield make
    for plant in plants:
        await plant.connectors.close()
    await until(lambda: not set(offspring()) - before)


def offspring() -> list[int]:
    """The processes below this one."""
    found: list[int] = []
    for child in psutil.Process().children(recursive=True):
        try:
            if child.status() != psutil.STATUS_ZOMBIE:
                found.append(child.pid)
        except psutil.NoSuchProcess:
            continue
    return found


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def processes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def web_demo(processes: ExitStack) -> str:
    """The address of the demo server as a remote one. All tests of a module have the same, which takes seconds to load
    its packages."""
    return web_demo_at(processes, free_port())


def web_demo_at(stack: ExitStack, port: int) -> str:
    return web_server_at(stack, DEMO, port)


def web_server_at(stack: ExitStack, program: Path, port: int | None = None) -> str:
    port = port or free_port()
    live = stack.enter_context(LiveProcess([sys.executable, program, "http", str(port)]))
    deadline = time.monotonic() + 20
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return f"http://127.0.0.1:{port}/mcp"
        assert time.monotonic() < deadline, live.output()
        time.sleep(0.02)
