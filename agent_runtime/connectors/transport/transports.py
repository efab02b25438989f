"""Open the transport to a server: a confined program, or HTTP. Packages that load slowly are imported in a thread."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agent_common.telemetry import Seldom, connection_lines, logger

from ...errors import ToolFailure
from ...sandbox import Confinement, Quota, SandboxLimits, SandboxProcess, SandboxSpec
from ..config.config import LocalServer, RemoteServer, ServerConfig
from ..config.installed_files import InstalledFiles, confinement_advice, find_installation
from ..config.trusted_paths import is_changeable
from ..rate_limit import MESSAGE_LIMIT
from .connection_state import ConnectionState, Streams

if TYPE_CHECKING:
    from agent_common.net import ConnectionRecord, Upstream

    from .oauth import AccessToken
    from .routes import Route

MIN_ADDRESS_SPACE = 4096 * 2**20
"""Bytes. JIT compilers reserve far more address space than they use; the memory in use is limited separately."""
NOISY_LOGGERS = ("mcp", "mcp_types", "client", "httpx2", "httpcore2")
"""Loggers of the packages, which log messages and addresses, including secrets."""

log = logger(__name__)


async def load_packages() -> None:
    """Import the packages in a thread, because that takes about a second."""
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in ("..session.session", ".stdio", ".http_transport"):
        await asyncio.to_thread(importlib.import_module, name, __package__)
    await asyncio.to_thread(importlib.import_module, "mcp")


@dataclass(frozen=True, slots=True)
class ConnectorDeps:
    """The dependencies of connections to all servers."""

    confinement: Confinement
    workspace: Path
    limits: SandboxLimits
    data_dir: Path
    upstream: Upstream | None = None
    """Connects local servers that have a network to other hosts; None connects them directly."""
    egress_url: str | None = None
    """URL of the operator's forward proxy, or None."""
    egress_token: str | None = None
    """The token of the mesh."""
    mesh_url: str | None = None
    """Base URL of the host, which calls the servers that name a service; None: there is no host."""
    unread_seconds: float = 10.0
    """Longest time in seconds for which a program may not read its input."""
    installations: dict[str, InstalledFiles] = field(default_factory=dict[str, InstalledFiles])
    """What was found for each local server. It stays as it is until the runtime starts again, so that nothing that
    happens meanwhile changes what a server sees."""

    lines: Seldom = field(default_factory=connection_lines)
    """Bounds those of the log about connections of local servers, by server."""

    @property
    def changeable(self) -> tuple[Path, ...]:
        """The folders in which commands and tools of the agent can write."""
        return (self.workspace, self.data_dir / "scratch")

    @asynccontextmanager
    async def open_streams(
        self, server: ServerConfig, connection_state: ConnectionState, access: AccessToken | None
    ) -> AsyncGenerator[Streams]:
        """Open the streams for a session. Raises ToolFailure if the program cannot be started."""
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
            child = await self._start_program(name, target, network)
            stack.push_async_callback(child.close)
            yield await stack.enter_async_context(stdio_streams(child, connection_state, self.unread_seconds))

    async def _start_program(self, name: str, target: LocalServer, network: Path | None) -> SandboxProcess:
        limits = replace(self.limits, memory=max(target.memory, MIN_ADDRESS_SPACE), total_memory=target.memory)
        found = await asyncio.to_thread(self._find, name, target)
        # Everything else is where the operator put it. What lies below the workspace is seen with that.
        own = (target.cwd,) if target.cwd and target.cwd != self.workspace else ()
        named = [one.resolve() for one in (*target.read, *own) if not is_changeable(one, self.changeable)]
        readable = (*found.folders, *named)
        sandbox_spec = SandboxSpec(
            # Not the workspace, which the agent can write: interpreters load code from their working directory.
            target.cwd.resolve() if target.cwd else Path("/"),
            writable=(self.workspace,) if target.write else (),
            readable=readable if target.write else (self.workspace, *readable),
            # Node uses proxy variables only if this one is set.
            env={**({"NODE_USE_ENV_PROXY": "1"} if network else {}), **found.env, **target.env},
            limits=limits,
            quotas=(Quota.for_size(self.workspace, limits.workspace, "the workspace"),) if target.write else (),
            network=network,
        )
        return await self.confinement.spawn(found.argv, sandbox_spec, line_limit=MESSAGE_LIMIT)

    async def older_transport(self, server: ServerConfig) -> list[str]:
        """Return what to do about a remote server that speaks only the transport of 2024; empty if it does not."""
        if not isinstance(server.target, RemoteServer):
            return []
        from .older_transport import OLDER_TRANSPORT, speaks_older_transport

        return [OLDER_TRANSPORT] if await speaks_older_transport(*self._route_to(server.target)) else []

    async def advice(self, server: ServerConfig) -> list[str]:
        """Return the faults that a local server will have in its confinement, each with its fix."""
        if not isinstance(server.target, LocalServer) or self.confinement.name in ("off", "none"):
            return []
        return await asyncio.to_thread(self._advice, server.name, server.target)

    def _advice(self, name: str, target: LocalServer) -> list[str]:
        held = self.confinement
        return confinement_advice(
            target,
            self._find(name, target),
            self.workspace,
            held.uid,
            by_path=held.by_path,
            changeable=self.changeable,
        )

    def _find(self, name: str, target: LocalServer) -> InstalledFiles:
        """Return what a server needs, as it was when its program was first found."""
        if (known := self.installations.get(name)) is not None:
            return known
        found = find_installation(target, self.data_dir, os.environ, self.changeable)
        if Path(target.cwd or "/", found.argv[0]).exists():
            self.installations[name] = found
            log.info("mcp server sees", server=name, folders=[str(folder) for folder in found.folders])
        return found

    async def _open_proxy(self, name: str, target: LocalServer, stack: AsyncExitStack) -> Path | None:
        """Open a forward proxy for the server, closed with the stack. Returns its socket, or None if it needs none."""
        from agent_common.net import DirectUpstream, unix_socket_proxy

        hosts = target.network
        if hosts is None or self.confinement.name == "off":  # an unconfined program has the machine's network
            return None
        if self.confinement.name != "bubblewrap":
            raise ToolFailure("its network access needs bubblewrap, which is not available", kind="unavailable")

        async def admit(host: str, _port: int, _agent: str) -> str | None:
            return None if hosts.match(host) else f"server {name} may not reach {host}"

        def note(record: ConnectionRecord) -> None:
            more = self.lines.facts_of_event(f"{name} {record.status}")
            if more is not None:
                log.info(
                    "mcp server out", server=name, host=record.host, port=record.port, verdict=record.verdict, **more
                )

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

        from .http_transport import LimitedStream, http_client

        assert isinstance(server.target, RemoteServer)  # noqa: S101
        where, way = self._route_to(server.target)
        auth = None
        if access is not None:
            from .oauth import BearerAuth

            auth = BearerAuth(access)
        given = auth is not None or bool(where.headers) or "?" in where.url
        client = http_client(
            way,
            connection_state=connection_state,
            credentials=given,
            headers=where.headers,
            auth=auth,
            read_seconds=max(server.timeout or 0, server.start_timeout or 0) + 30,
        )
        async with (
            client as http,
            streamable_http_client(where.url, http_client=http, max_sse_event_size=MESSAGE_LIMIT) as (reading, writing),
        ):
            yield LimitedStream(reading, connection_state), writing

    def _route_to(self, target: RemoteServer) -> tuple[RemoteServer, Route]:
        """Return the server with its URL and headers, and the route to it."""
        from agent_common.net import parse_http_url

        from .routes import Route

        if target.service is None:
            return target, Route(self.egress_url, self.egress_token)
        if self.mesh_url is None:
            raise ToolFailure("there is no host whose service it could be: set AGENT_MESH_URL", kind="unavailable")
        base = parse_http_url(self.mesh_url)
        origin = f"{'https' if base.tls else 'http'}://{base.host}{base.path}"
        headers = {**target.headers, **({"authorization": f"Bearer {self.egress_token}"} if self.egress_token else {})}
        url = f"{origin}/services/{target.service}{target.url}"
        return replace(target, url=url, headers=headers), Route(mesh=base.endpoint)

    def access_token(self, server: ServerConfig) -> AccessToken | None:
        """Return the access token of a server, for all its connections, or None if it uses no OAuth."""
        if not isinstance(server.target, RemoteServer) or server.target.oauth is None:
            return None
        from .oauth import AccessToken
        from .refresh_tokens import TokenFile
        from .routes import Route

        kept = TokenFile(self.data_dir / "connectors" / f"{server.name}.json", server.target.oauth)
        return AccessToken(server.name, server.target.url, kept, Route(self.egress_url, self.egress_token))
