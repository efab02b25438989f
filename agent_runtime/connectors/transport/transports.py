"""The ways to a server: a program started in a box, or HTTP. What takes long to load is loaded here, off the loop."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agent_common.telemetry import logger

from ...errors import ToolFailure
from ...sandbox import Confinement, Quota, SandboxLimits, SandboxProcess, SandboxSpec
from ..config.config import LocalServer, RemoteServer, ServerConfig
from ..config.installed_files import confinement_advice, find_installation
from ..rate_limit import MESSAGE_LIMIT
from .connection_state import ConnectionState, Streams

if TYPE_CHECKING:
    from agent_common.net import ConnectionRecord, Upstream

    from .oauth import AccessToken

MIN_ADDRESS_SPACE = 4096 * 2**20
"""Bytes: programs that compile reserve far more memory than they use. What they use is bounded all the same."""
NOISY_LOGGERS = ("mcp", "mcp_types", "client", "httpx2", "httpcore2")
"""Loggers of the packages, which write down messages and addresses, and secrets with them."""

log = logger(__name__)


async def load_packages() -> None:
    """Loads the packages in a thread: that takes about a second."""
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in ("..session.session", ".stdio", ".http_transport"):
        await asyncio.to_thread(importlib.import_module, name, __package__)
    await asyncio.to_thread(importlib.import_module, "mcp")


@dataclass(frozen=True, slots=True)
class ConnectorDeps:
    """What servers stand on, wired once."""

    confinement: Confinement
    workspace: Path
    limits: SandboxLimits
    data_dir: Path
    upstream: Upstream | None = None
    """The way out of those that have a network; none: straight out."""
    egress_url: str | None = None
    """The operator's forward proxy."""
    egress_token: str | None = None
    unread_seconds: float = 10.0
    """Seconds that a program may leave its input unread."""

    @asynccontextmanager
    async def open_streams(
        self, server: ServerConfig, connection_state: ConnectionState, access: AccessToken | None
    ) -> AsyncGenerator[Streams]:
        """The streams of a session. Raises ToolFailure when the program cannot be started."""
        where = server.target
        made = (
            self._open_local(server.name, where, connection_state)
            if isinstance(where, LocalServer)
            else self._open_remote(server, connection_state, access)
        )
        async with made as streams:
            yield streams

    @asynccontextmanager
    async def _open_local(
        self, name: str, target: LocalServer, connection_state: ConnectionState
    ) -> AsyncGenerator[Streams]:
        from .stdio import stdio_streams

        async with AsyncExitStack() as stack:
            network = await self._open_proxy(name, target, stack)
            child = await self._start_program(target, network)
            stack.push_async_callback(child.close)
            yield await stack.enter_async_context(stdio_streams(child, connection_state, self.unread_seconds))

    async def _start_program(self, target: LocalServer, network: Path | None) -> SandboxProcess:
        limits = replace(self.limits, memory=max(target.memory, MIN_ADDRESS_SPACE), total_memory=target.memory)
        found = await asyncio.to_thread(find_installation, target, self.data_dir, os.environ)
        own = (target.cwd,) if target.cwd and target.cwd != self.workspace else ()
        readable = (*found.folders, *target.read, *own)
        box = SandboxSpec(
            # Not the workspace: interpreters run code that they find where they are, and the agent can write there.
            target.cwd or Path("/"),
            writable=(self.workspace,) if target.write else (),
            readable=readable if target.write else (self.workspace, *readable),
            # Node goes by these two only when it is told to.
            env={**({"NODE_USE_ENV_PROXY": "1"} if network else {}), **found.env, **target.env},
            limits=limits,
            quotas=(Quota.for_size(self.workspace, limits.workspace, "the workspace"),) if target.write else (),
            network=network,
        )
        return await self.confinement.spawn(found.argv, box, line_limit=MESSAGE_LIMIT)

    async def advice(self, server: ServerConfig) -> list[str]:
        """Say what a local server will miss in its confinement, each with its fix."""
        if not isinstance(server.target, LocalServer) or self.confinement.name in ("off", "none"):
            return []
        return await asyncio.to_thread(self._advice, server.target)

    def _advice(self, target: LocalServer) -> list[str]:
        found = find_installation(target, self.data_dir, os.environ)
        held = self.confinement
        return confinement_advice(target, found, self.workspace, held.uid, by_path=held.by_path)

    async def _open_proxy(self, name: str, target: LocalServer, stack: AsyncExitStack) -> Path | None:
        """The socket of a proxy of its own, for as long as the stack lasts."""
        from agent_common.net import DirectUpstream, unix_socket_proxy

        hosts = target.network
        if hosts is None or self.confinement.name == "off":  # what is not confined has the machine's network
            return None
        if self.confinement.name != "bubblewrap":
            raise ToolFailure("it is to have a network, which only bubblewrap can give it", kind="unavailable")

        async def admit(host: str, _port: int, _agent: str) -> str | None:
            return None if hosts.match(host) else f"server {name} may not reach {host}"

        def note(passage: ConnectionRecord) -> None:
            log.info("mcp server out", server=name, host=passage.host, port=passage.port, verdict=passage.verdict)

        folder = stack.enter_context(TemporaryDirectory(prefix="agent-mcp-"))
        opened = unix_socket_proxy(
            Path(folder, "proxy"), admit, self.upstream or DirectUpstream(), uid=self.confinement.uid, on_closed=note
        )
        return await stack.enter_async_context(opened)

    @asynccontextmanager
    async def _open_remote(
        self, server: ServerConfig, connection_state: ConnectionState, access: AccessToken | None
    ) -> AsyncGenerator[Streams]:
        from mcp.client.streamable_http import streamable_http_client

        from .http_transport import LimitedStream, Route, http_client

        where = server.target
        assert isinstance(where, RemoteServer)  # noqa: S101
        auth = None
        if access is not None:
            from .oauth import BearerAuth

            auth = BearerAuth(access)
        way = Route(self.egress_url, self.egress_token)
        given = auth is not None or bool(where.headers) or "?" in where.url
        client = http_client(
            way,
            connection_state=connection_state,
            credentials=given,
            headers=where.headers,
            auth=auth,
            read_seconds=(server.timeout or 0) + 30,
        )
        async with (
            client as http,
            streamable_http_client(where.url, http_client=http, max_sse_event_size=MESSAGE_LIMIT) as (reading, writing),
        ):
            yield LimitedStream(reading, connection_state), writing

    def access_token(self, server: ServerConfig) -> AccessToken | None:
        """The access token of a server that has one, over all its connections."""
        if not isinstance(server.target, RemoteServer) or server.target.oauth is None:
            return None
        from .http_transport import Route
        from .oauth import AccessToken
        from .refresh_tokens import TokenFile

        kept = TokenFile(self.data_dir / "connectors" / f"{server.name}.json", server.target.oauth)
        return AccessToken(server.name, server.target.url, kept, Route(self.egress_url, self.egress_token))
