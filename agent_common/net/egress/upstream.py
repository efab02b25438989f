"""Outgoing connections: directly to a host whose addresses are checked, or through a proxy that checks them.

A name is looked up once, and the connection goes to the address that was checked. A second look-up could return a
different address.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from ...errors import ToolFailure
from ..endpoints.connect import open_endpoint
from ..endpoints.endpoint import parse_http_url
from .address_policy import Address, AddressPolicy, literal_address
from .urls import bracketed

CONNECT_SECONDS = 10.0
ONE_ADDRESS_SECONDS = 4.0
MAX_ADDRESSES = 4
MAX_HEAD_BYTES = 16 * 1024
MAX_REASON_BYTES = 2048
ByteCounter = Callable[[int], None]
"""Called with the number of bytes before they are sent. Raises ToolFailure if they may not be sent."""
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: .*)?")
_KINDS = {400: "invalid", 403: "denied", 407: "unavailable", 429: "unavailable", 503: "unavailable", 504: "timeout"}


@dataclass(frozen=True, slots=True)
class ByteStream:
    """An open connection. The code that opened it must call `close`."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    underlying: ByteStream | None = None
    """The stream below TLS, kept because a writer that is garbage collected closes its connection."""

    def close(self) -> None:
        """Close at once. Data that is written but not sent yet is lost."""
        transport = self.writer.transport
        if transport is not None:  # pyright: ignore[reportUnnecessaryComparison]  uvloop has none once it is closed
            transport.abort()


class Resolver(Protocol):
    """Resolves names to addresses."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host, best first. Raises OSError if there are none."""
        ...


class Upstream(Protocol):
    """Opens connections to hosts, directly or through a proxy."""

    async def open(self, host: str, port: int) -> ByteStream:
        """Connect to a canonical host, without TLS. Raises ToolFailure if that is not allowed or fails."""
        ...


class SystemResolver:
    """Resolves names with the operating system's resolver."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True, slots=True)
class DirectUpstream:
    """Connects directly to the host."""

    rules: AddressPolicy = field(default_factory=AddressPolicy)
    resolver: Resolver = field(default_factory=SystemResolver)
    seconds: float = CONNECT_SECONDS

    async def open(self, host: str, port: int) -> ByteStream:
        self.rules.check(host, port)
        with _timeout_as_failure(self.seconds, host):
            async with asyncio.timeout(self.seconds):
                return await self._connect(host, port, await self._resolve_checked(host, port))

    async def _resolve_checked(self, host: str, port: int) -> Sequence[Address]:
        """Return the host's addresses. Raises ToolFailure if any is not allowed: the name is then suspicious."""
        literal = literal_address(host)
        if literal is not None:
            return [literal]
        try:
            given = await self.resolver.resolve(host, port)
            found = [ipaddress.ip_address(text) for text in given]
        except (OSError, UnicodeError, ValueError) as error:
            raise ToolFailure(f"{host} has no address ({_reason(error)}); check how it is spelled") from error
        if not found:
            raise ToolFailure(f"{host} has no address; check how it is spelled")
        for address in found:
            self.rules.check_address(host, address)
        return found[:MAX_ADDRESSES]

    async def _connect(self, host: str, port: int, addresses: Sequence[Address]) -> ByteStream:
        why: BaseException = TimeoutError()
        for address in addresses:
            try:
                async with asyncio.timeout(ONE_ADDRESS_SECONDS):
                    stream = ByteStream(*await asyncio.open_connection(str(address), port))
            except OSError as error:  # includes TimeoutError
                why = error
                continue
            self._refuse_own_address(host, stream)
            return stream
        if isinstance(why, TimeoutError):
            raise ToolFailure(f"{host} does not answer on port {port}", kind="timeout") from why
        raise ToolFailure(f"{host} refuses a connection on port {port} ({_reason(why)})") from why

    def _refuse_own_address(self, host: str, stream: ByteStream) -> None:
        """Refuse this machine's own address even if it is public, because its services are not meant for the agent."""
        own, peer = (stream.writer.get_extra_info(name)[0] for name in ("sockname", "peername"))
        if own == peer and not self.rules.allows(ipaddress.ip_address(peer)):
            stream.close()
            raise ToolFailure(f"{host} is this machine itself; only public hosts can be reached", kind="denied")


@dataclass(frozen=True, slots=True)
class ProxyUpstream:
    """Connects through a forward proxy: `http://host:port`, `http+unix://` with its socket's path,
    `http+vsock://2:port`.

    The proxy looks up and checks names. Checks that need no look-up are also made here.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    """Sent to the proxy as a Basic password, which is all that proxy clients support; None sends no credentials."""
    rules: AddressPolicy = field(default_factory=AddressPolicy)
    seconds: float = CONNECT_SECONDS * 2

    async def open(self, host: str, port: int) -> ByteStream:
        self.rules.check(host, port)
        with _timeout_as_failure(self.seconds, host):
            async with asyncio.timeout(self.seconds), self._connect_to_proxy() as stream:
                stream.writer.write(self._request(host, port))
                await self._read_connect_response(stream, host)
                return stream

    @asynccontextmanager
    async def _connect_to_proxy(self) -> AsyncGenerator[ByteStream]:
        try:
            stream = ByteStream(*await open_endpoint(parse_http_url(self.url).endpoint, self.seconds))
        except TimeoutError:
            raise
        except OSError as error:
            raise ToolFailure(f"the forward proxy cannot be reached: {_reason(error)}", kind="unavailable") from error
        try:
            yield stream
        except BaseException:
            stream.close()
            raise

    def _request(self, host: str, port: int) -> bytes:
        where = f"{bracketed(host)}:{port}"
        shown = ""
        if self.token is not None:
            shown = f"Proxy-Authorization: Basic {base64.b64encode(f'agent:{self.token}'.encode()).decode()}\r\n"
        return f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{shown}\r\n".encode()

    async def _read_connect_response(self, stream: ByteStream, host: str) -> None:
        try:
            head = await stream.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
            raise ToolFailure(f"the forward proxy broke off the connection to {host}") from error
        found = _STATUS.fullmatch(head.split(b"\r\n", 1)[0])
        if found is None or len(head) > MAX_HEAD_BYTES:
            raise ToolFailure(f"the answer to a connection to {host} is not that of a forward proxy")
        status = int(found[1])
        if 200 <= status < 300:
            return
        reason = ""
        with contextlib.suppress(OSError):
            reason = (await stream.reader.read(MAX_REASON_BYTES)).decode(errors="replace").strip()
        kind = _KINDS.get(status, "backend")
        text = reason or f"the proxy answered {status}"
        raise ToolFailure(f"{host} cannot be reached: {text}", kind=kind)  # pyright: ignore[reportArgumentType]


async def upgrade_to_tls(stream: ByteStream, server_name: str, context: ssl.SSLContext) -> ByteStream:
    """Start TLS on a connection, and check the certificate for `server_name`. Raises ToolFailure if that fails."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    try:
        transport = await loop.start_tls(
            stream.writer.transport,
            protocol,
            context,
            server_hostname=server_name,
            ssl_handshake_timeout=CONNECT_SECONDS,
        )
    except ssl.SSLCertVerificationError as error:
        raise ToolFailure(f"the certificate of {server_name} is not valid: {error.verify_message}") from error
    except OSError as error:  # includes TLS errors and timeouts
        raise ToolFailure(f"no secure connection to {server_name} ({_reason(error)})") from error
    if transport is None:  # pyright: ignore[reportUnnecessaryComparison]  closed during the handshake
        raise ToolFailure(f"no secure connection to {server_name} (it was closed)")
    protocol.connection_made(transport)
    return ByteStream(reader, asyncio.StreamWriter(transport, protocol, reader, loop), stream)


@contextlib.contextmanager
def _timeout_as_failure(seconds: float, host: str) -> Generator[None]:
    try:
        yield
    except TimeoutError as error:
        raise ToolFailure(f"no connection to {host} within {seconds:g} s", kind="timeout") from error


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
