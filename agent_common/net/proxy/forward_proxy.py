"""A forward proxy that connects its clients only to hosts that a callback allows.

It supports CONNECT, and HTTP/1.1 requests with absolute URLs, one request for each connection. The `Upstream` that it
is given resolves the hosts and checks that their addresses are public.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Literal, Self

from ...errors import AgentRuntimeError, ToolFailure
from ..egress.upstream import ByteCounter, ByteStream, Upstream
from ..shares import ShareCounter
from .proxy_request import InvalidProxyRequest, ProxyRequest, parse_head

PIECE = 64 * 1024
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_STATUS = {"denied": 403, "invalid": 400, "timeout": 504, "unavailable": 503}
_FLUSH_SECONDS = 5.0
_LINGER_SECONDS = 1.0

ConnectionVerdict = Literal["open", "refused", "failed"]
HostCheck = Callable[[str, int, str], Awaitable[str | None]]
"""Called with a canonical host, its port and the client. Returns the reason to refuse it, or None to allow it."""
Authenticate = Callable[[str], Awaitable[str | None]]
"""Called with a token. Returns the client that it belongs to, or None if it is not valid."""


@dataclass(frozen=True, slots=True)
class ForwardProxyLimits:
    connections: int = 256
    """Most connections that have been let through; several agents share them."""
    heads: int = 128
    """Most connections that have not been let through yet; one more closes the oldest."""
    head_bytes: int = 32 * 1024
    head_seconds: float = 10.0
    idle_seconds: float = 120.0
    """Longest time without a byte in either direction, or with a byte that the peer does not read."""
    total_seconds: float = 3600.0


@dataclass(slots=True)
class ConnectionRecord:
    """The course of one connection, for the log."""

    agent: str = ""
    host: str = ""
    port: int = 0
    verdict: ConnectionVerdict = "refused"
    """`open`: it was let through; `failed`: it was allowed, but the host could not be reached."""
    status: int = 0
    """The proxy's own status for the client; 200 if it was let through."""
    reason: str = ""
    sent: int = 0
    """Bytes from the client to the host."""
    received: int = 0
    seconds: float = 0.0


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(eq=False, slots=True)
class _Entry:
    """A listening socket and its connections."""

    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    open: bool = True


class ForwardProxy:
    """Serves connections between `listen` and `close`.

    `on_closed` is called with each connection's record when it ends. `count_sent` is called with the number of bytes
    before they are sent to a host; if it raises, the connection ends.
    """

    def __init__(
        self,
        upstream: Upstream,
        check_host: HostCheck,
        *,
        authenticate: Authenticate | None = None,
        on_closed: Callable[[ConnectionRecord], None] | None = None,
        limits: ForwardProxyLimits | None = None,
        count_sent: ByteCounter | None = None,
    ) -> None:
        self._upstream = upstream
        self._check_host = check_host
        self._authenticate = authenticate
        self._on_closed = on_closed
        self._count_sent = count_sent
        self._limits = limits or ForwardProxyLimits()
        self._entries: dict[asyncio.Server, _Entry] = {}
        self._heads: OrderedDict[ByteStream, None] = OrderedDict()
        self._shares = ShareCounter(self._limits.connections)
        self._records: dict[asyncio.Task[None] | None, ConnectionRecord] = {}

    async def listen(self, bound: socket.socket) -> asyncio.Server:
        """Accept connections on a TCP, unix or vsock socket, which is closed when the server closes."""
        entry = _Entry()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._accept(ByteStream(reader, writer), entry)

        start = asyncio.start_unix_server if bound.family == socket.AF_UNIX else asyncio.start_server
        server = await start(connected, sock=bound, limit=self._limits.head_bytes)
        self._entries[server] = entry
        return server

    async def close_server(self, server: asyncio.Server, *, abruptly: bool = True) -> None:
        """Stop accepting on a socket, and end its connections at once, whatever `abruptly` says. Idempotent."""
        server.close()
        entry = self._entries.pop(server, _Entry())
        entry.open = False
        for task in entry.tasks:
            task.cancel()
        await asyncio.gather(*entry.tasks, return_exceptions=True)

    def disconnect(self, agent: str) -> None:
        """End all connections of an agent at once, because its token has been revoked."""
        for task, record in self._records.items():
            if record.agent == agent and task is not None:
                record.reason = "its token was revoked"
                task.cancel()

    async def close(self) -> None:
        """Stop accepting, and end all connections."""
        await asyncio.gather(*(self.close_server(server) for server in list(self._entries)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _accept(self, client: ByteStream, entry: _Entry) -> None:
        if not entry.open:
            client.close()
            return
        if len(self._heads) >= self._limits.heads:
            oldest, _ = self._heads.popitem(last=False)
            oldest.close()
        self._heads[client] = None
        task = asyncio.create_task(self._serve(client))
        entry.tasks.add(task)
        task.add_done_callback(entry.tasks.discard)

    async def _serve(self, client: ByteStream) -> None:
        loop = asyncio.get_running_loop()
        record = ConnectionRecord()
        began = loop.time()
        me = asyncio.current_task()
        self._records[me] = record
        total = asyncio.timeout(self._limits.total_seconds)
        try:
            with ExitStack() as slots:  # held until the client has disconnected
                async with total:
                    await self._handle(client, record, slots)
                await _finish_response(client)
        except (OSError, TimeoutError, ToolFailure) as error:
            late = f"over after {self._limits.total_seconds:g} s"
            record.reason = record.reason or (late if total.expired() else str(error) or type(error).__name__)
        finally:
            client.close()
            self._heads.pop(client, None)
            del self._records[me]
            record.seconds = loop.time() - began
            if self._on_closed is not None:
                self._on_closed(record)

    async def _handle(self, client: ByteStream, record: ConnectionRecord, slots: ExitStack) -> None:
        """Serve one connection until it ends, or refuse it."""
        try:
            request = await self._authorise_request(client, record)
            if not slots.enter_context(self._shares.hold(record.agent)):
                raise self._limit_refusal()
            self._heads.pop(client, None)
            upstream = await self._open_upstream(request, record)
        except _Refused as refused:
            record.status = refused.status
            record.reason = refused.reason
            client.writer.write(_refusal_response(refused))
            return
        record.verdict = "open"
        record.status = 200
        try:
            if request.url is None:
                client.writer.write(ESTABLISHED)
            else:
                head = request.forwarded()
                self._count_bytes(record, len(head))
                upstream.writer.write(head)
            await self._pipe(client, upstream, record, None if request.url is None else request.body_bytes)
        finally:
            upstream.close()

    def _limit_refusal(self) -> _Refused:
        if self._authenticate is not None:
            return _Refused(429, "you have too many connections; try again when one of them has ended")
        return _Refused(503, f"there are {self._limits.connections} connections already; try again later")

    async def _authorise_request(self, client: ByteStream, record: ConnectionRecord) -> ProxyRequest:
        """Read a request, and return it if its client is known and its host is allowed. Raises _Refused otherwise."""
        request = await self._read_request(client)
        record.host = request.host
        record.port = request.port
        if self._authenticate is not None:
            token = request.credentials
            try:
                agent = await self._authenticate(token) if token else None
            except AgentRuntimeError as error:
                raise _Refused(503, error.message) from error
            if agent is None:
                raise _Refused(407, "this needs a token of the mesh, as Bearer or as the password of Basic")
            record.agent = agent
        refusal = await self._check_host(request.host, request.port, record.agent)
        if refusal is not None:
            raise _Refused(403, refusal)
        return request

    async def _read_request(self, client: ByteStream) -> ProxyRequest:
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                return parse_head(await client.reader.readuntil(b"\r\n\r\n"))
        except TimeoutError as error:
            raise _Refused(408, f"no complete request came within {self._limits.head_seconds:g} s") from error
        except asyncio.LimitOverrunError as error:
            raise _Refused(431, f"the head of a request may have {self._limits.head_bytes} bytes") from error
        except asyncio.IncompleteReadError as error:
            raise _Refused(400, "the request is not complete") from error
        except InvalidProxyRequest as error:
            raise _Refused(400, error.message) from error

    async def _open_upstream(self, request: ProxyRequest, record: ConnectionRecord) -> ByteStream:
        try:
            return await self._upstream.open(request.host, request.port)
        except ToolFailure as failure:
            status = _STATUS.get(failure.kind, 502)
            record.verdict = "refused" if status == 403 else "failed"
            raise _Refused(status, failure.message) from failure
        except AgentRuntimeError as error:
            record.verdict = "failed"
            raise _Refused(502, error.message) from error

    async def _pipe(self, client: ByteStream, upstream: ByteStream, record: ConnectionRecord, body: int | None) -> None:
        """Copy data in both directions until the host has sent everything, a connection breaks, or both are idle.
        `body`: how much is sent to the host at most; None: everything."""
        idle = asyncio.timeout(self._limits.idle_seconds)

        def moved() -> None:
            idle.reschedule(asyncio.get_running_loop().time() + self._limits.idle_seconds)

        async def up() -> None:
            left = body
            while data := await client.reader.read(PIECE):
                if left is not None:
                    data, left = data[:left], left - len(data[:left])
                if data:
                    self._count_bytes(record, len(data))
                    await self._forward(upstream, data)
                    moved()
            with contextlib.suppress(OSError):
                upstream.writer.write_eof()

        async def down() -> None:
            while data := await upstream.reader.read(PIECE):
                record.received += len(data)
                await self._forward(client, data)
                moved()

        try:
            async with idle:
                await _run_both(down(), up())
        except TimeoutError:
            if not idle.expired():
                raise
            record.reason = f"idle for {self._limits.idle_seconds:g} s"

    def _count_bytes(self, record: ConnectionRecord, size: int) -> None:
        """Count bytes before they are sent. Raises ToolFailure if they may not be sent."""
        if self._count_sent is not None:
            self._count_sent(size)
        record.sent += size

    async def _forward(self, stream: ByteStream, data: bytes) -> None:
        stream.writer.write(data)
        try:
            async with asyncio.timeout(self._limits.idle_seconds):
                await stream.writer.drain()
        except TimeoutError as error:
            raise OSError(f"the peer read nothing for {self._limits.idle_seconds:g} s") from error


@asynccontextmanager
async def unix_socket_proxy(
    path: Path,
    check_host: HostCheck,
    upstream: Upstream,
    *,
    uid: int | None = None,
    on_closed: Callable[[ConnectionRecord], None] | None = None,
    limits: ForwardProxyLimits | None = None,
    count_sent: ByteCounter | None = None,
) -> AsyncGenerator[Path]:
    """Run a forward proxy on a unix socket during the block, for a command that has no network of its own.

    `uid`: the owner of the socket; None means the server's own user. All connections end with the block. Raises OSError
    if the socket cannot be created.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(str(path))
        os.chmod(path, 0o600)  # before it listens, so that no client can connect earlier
        if uid is not None:
            os.chown(path, uid, uid)
        bound.setblocking(False)
        async with ForwardProxy(
            upstream, check_host, on_closed=on_closed, limits=limits, count_sent=count_sent
        ) as forward:
            await forward.listen(bound)
            yield path
    finally:
        bound.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


async def _run_both(primary: Awaitable[None], secondary: Awaitable[None]) -> None:
    """Run both until the primary one has ended, or either fails."""
    main = asyncio.ensure_future(primary)
    aside = asyncio.ensure_future(secondary)
    try:
        done, _ = await asyncio.wait({main, aside}, return_when=asyncio.FIRST_COMPLETED)
        if aside in done:
            aside.result()
            await main
        else:
            main.result()
    finally:
        for task in (main, aside):
            task.cancel()
        await asyncio.gather(main, aside, return_exceptions=True)


async def _finish_response(client: ByteStream) -> None:
    """Send the remaining data, and give the client a moment to close the connection first.

    Closing a connection with unread data of the client resets it, and the client may then lose the response.
    """
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_FLUSH_SECONDS):
            client.writer.write_eof()
            await client.writer.drain()
        async with asyncio.timeout(_LINGER_SECONDS):
            while await client.reader.read(PIECE):
                pass


def _refusal_response(refused: _Refused) -> bytes:
    body = f"{refused.reason}\n".encode()
    more = {407: 'Proxy-Authenticate: Basic realm="mesh"\r\n', 429: "Retry-After: 1\r\n"}.get(refused.status, "")
    lines = (
        f"HTTP/1.1 {refused.status} {HTTPStatus(refused.status).phrase}\r\n{more}"
        f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return lines.encode() + body
