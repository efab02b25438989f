"""The MCP servers that the operator has named: for turns, and for `agent-runtime mcp test`."""

from __future__ import annotations

import asyncio
import os

from agent_common.protocol.authority import Authority, Layer

from ..connectors import MAX_CONCURRENT_STARTS, ConnectorDeps, ConnectorManager, ServerConfig, Timeouts, read_servers
from ..errors import StartError
from ..sandbox import Confinement, SandboxLimits, choose_confinement
from ..settings import Settings
from ..workspace import Home
from .operator_files import require_out_of_reach
from .secrets import mesh_token


def sandbox_limits(settings: Settings) -> SandboxLimits:
    """What the folders that commands write may hold."""
    return SandboxLimits(scratch=settings.scratch_mb * 2**20, workspace=settings.workspace_mb * 2**20)


def named_servers(settings: Settings, home: Home) -> tuple[ServerConfig, ...]:
    """Raises StartError."""
    return read_servers(settings.mcp_path, home.data_dir, os.environ, required=settings.mcp_file is not None)


def connector_deps(settings: Settings, home: Home, confinement: Confinement) -> ConnectorDeps:
    from agent_common.net import WebClient

    token = mesh_token(settings)
    return ConnectorDeps(
        confinement,
        home.workspace,
        sandbox_limits(settings),
        home.data_dir,
        upstream=WebClient.via_proxy(settings.egress_url, token).upstream,
        egress_url=settings.egress_url,
        egress_token=token,
        mesh_url=settings.mesh_url if settings.has_mesh else None,
    )


async def try_servers(settings: Settings, name: str | None) -> tuple[list[str], bool]:
    """Connect to the named MCP server, or to all, without a turn. Return lines that tell how each is, and whether all
    are well. Raises StartError."""
    home = Home(settings.data_dir, user_folder=settings.user_folder)
    servers = named_servers(settings, home)
    wanted = [server for server in servers if name in (None, server.name)]
    if not wanted:
        there = f"there are: {', '.join(server.name for server in servers)}" if servers else "there are none"
        asked = "an MCP server" if name is None else f"the MCP server {name}"
        raise StartError(f"{settings.mcp_path} does not name {asked}; {there}")
    require_out_of_reach(settings, home)
    home.prepare()
    confinement = await choose_confinement(settings.confinement, home.data_dir)
    home = home.with_owner(confinement.uid, by_path=confinement.by_path)
    deps = connector_deps(settings, home, confinement)
    longest = max(server.start_timeout or Timeouts().connect for server in wanted)
    seconds = longest * (1 + len(wanted) // MAX_CONCURRENT_STARTS)
    connectors = ConnectorManager(servers, deps, Timeouts(first_wait=seconds))
    try:
        await connectors.ready(Authority((Layer(tools=tuple(f"mcp:{server.name}:*" for server in wanted)),)))
        states = {state.name: state for state in connectors.servers()}
    finally:
        await asyncio.shield(connectors.close())
    lines: list[str] = []
    for server in wanted:
        state = states[server.name]
        lines.append(f"{state.name} ({state.kind}): {'failed' if state.error else state.state}")
        if state.error:
            lines.append(f"  {state.error}")
        elif state.state == "ready":
            counted = "1 tool" if len(state.tools) == 1 else f"{len(state.tools)} tools"
            lines.append(f"  {counted}: {', '.join(state.tools)}")
            lines += [f"  left out: {line}" for line in state.faults]
            lines += [f"  note: {line}" for line in await deps.advice(server)]
    return lines, all(states[server.name].state == "ready" for server in wanted if server.enabled)
