"""What programs of the guest can make of the log by opening connections: so many lines a minute."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent_common.net import DirectUpstream, HostPatterns
from agent_common.protocol import Rule
from agent_common.protocol.authority import Authority, Layer
from agent_common.telemetry import CONNECTION_LINES, connection_lines
from agent_runtime.connectors.config.config import LocalServer
from agent_runtime.connectors.transport.transports import ConnectorDeps
from agent_runtime.sandbox import SandboxLimits
from agent_runtime.skills.sources.granted_hosts import GrantedHosts
from agent_runtime.skills.sources.grants import Grant
from agent_runtime.skills.sources.staging import StagedBuild
from agent_runtime.skills.workers.network import open_network
from agent_runtime.tools.bash.command_proxy import SHELL_NET, CommandProxy
from tests.unit.net.webs import LOOPBACK, Names

from .conftest import House

ALLOWED = "a.invalid"
CONNECTIONS = CONNECTION_LINES + 20
NOWHERE = DirectUpstream(LOOPBACK, Names({}))
Way = Callable[[House], AbstractAsyncContextManager[Path]]


@asynccontextmanager
async def of_a_command(house: House) -> AsyncGenerator[Path]:
    rule = Rule(permission=SHELL_NET, pattern=ALLOWED, action="allow", source="manifest")
    context = replace(house.context, authority=Authority((Layer(rules=(rule,)),)))
    async with CommandProxy(house.confinement, NOWHERE).open(context) as path:
        assert path is not None
        yield path


@asynccontextmanager
async def of_a_skill(house: House) -> AsyncGenerator[Path]:
    staged = StagedBuild(Path("x"), Path("x.py"), grant=Grant(hosts=GrantedHosts.from_grants([ALLOWED])))
    async with AsyncExitStack() as stack:
        path = await open_network(staged, house.confinement, NOWHERE, stack, None, connection_lines())
        assert path is not None
        yield path


@asynccontextmanager
async def of_a_server(house: House) -> AsyncGenerator[Path]:
    deps = ConnectorDeps(house.confinement, house.home.workspace, SandboxLimits(), house.home.data_dir, NOWHERE)
    target = LocalServer((), {}, network=HostPatterns.from_patterns([ALLOWED]))
    async with AsyncExitStack() as stack:
        path = await deps._open_proxy("x", target, stack)  # pyright: ignore[reportPrivateUsage]
        assert path is not None
        yield path


async def connect(path: Path, target: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(f"CONNECT {target}:443 HTTP/1.1\r\n\r\n".encode())
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("way", [of_a_command, of_a_skill, of_a_server])
async def test_of_many_connections_that_end_alike_some_are_written(
    way: Way, house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with way(house) as path:
        for _ in range(CONNECTIONS):
            assert b" 403 " in await connect(path, "b.invalid")
        assert b" 502 " in await connect(path, ALLOWED)
    lines = [record for record in caplog.records if record.getMessage().endswith(" out")]
    assert [line.__dict__["facts"]["verdict"] for line in lines] == ["refused"] * CONNECTION_LINES + ["failed"]
