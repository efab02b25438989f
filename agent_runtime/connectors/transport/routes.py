"""Connections to a configured server: through the operator's forward proxy, the host, or directly."""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from typing import Any

import anyio
import httpcore2

from agent_common.net import (
    ANY_ADDRESS,
    ByteStream,
    DirectUpstream,
    Endpoint,
    ProxyUpstream,
    Upstream,
    canonical_host,
    open_endpoint,
    upgrade_to_tls,
)

from ...errors import ToolFailure


class Route:
    """The route to a server: through the operator's forward proxy, or directly if the server is on this machine.

    `mesh`: the endpoint of the agent's host, to which all connections go.
    """

    def __init__(
        self, egress_url: str | None = None, token: str | None = None, *, mesh: Endpoint | None = None
    ) -> None:
        self._direct = DirectUpstream(ANY_ADDRESS)
        self._proxy = ProxyUpstream(egress_url, token, ANY_ADDRESS) if egress_url else None
        self._mesh = mesh

    async def open(self, host: str, port: int) -> ByteStream:
        """Connect to a host. Raises ToolFailure."""
        if self._mesh is not None:
            try:
                return ByteStream(*await open_endpoint(self._mesh))
            except OSError as error:
                raise ToolFailure(
                    f"the host cannot be reached: {error.strerror or error}", kind="unavailable"
                ) from error
        name = canonical_host(f"[{host}]" if ":" in host else host)
        upstream: Upstream = self._direct if self._proxy is None or _is_loopback(name) else self._proxy
        return await upstream.open(name, port)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Backend(httpcore2.AsyncNetworkBackend):
    """Opens connections for the pool over the runtime's own upstreams."""

    def __init__(self, route: Route) -> None:
        self._route = route

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return _Connection(await self._route.open(host, port))
        except ToolFailure as failure:
            raise httpcore2.ConnectError(failure.message) from failure

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class _Connection(httpcore2.AsyncNetworkStream):
    """One connection, with the interface of the pool."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        try:
            with anyio.fail_after(timeout):
                return await self._stream.reader.read(max_bytes)
        except TimeoutError as error:
            raise httpcore2.ReadTimeout("it sends nothing") from error
        except OSError as error:
            raise httpcore2.ReadError(error.strerror or "the connection broke") from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        try:
            with anyio.fail_after(timeout):
                self._stream.writer.write(buffer)
                await self._stream.writer.drain()
        except TimeoutError as error:
            raise httpcore2.WriteTimeout("it reads nothing") from error
        except OSError as error:
            raise httpcore2.WriteError(error.strerror or "the connection broke") from error

    async def aclose(self) -> None:
        self._stream.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return _Connection(await upgrade_to_tls(self._stream, server_hostname or "", ssl_context))
        except ToolFailure as failure:
            raise httpcore2.ConnectError(failure.message) from failure

    def get_extra_info(self, info: str) -> Any:
        return self._stream.reader.at_eof() if info == "is_readable" else None
