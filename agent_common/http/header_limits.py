"""HTTP connections that cannot be kept for nothing: each has a deadline for progress, and their number is bounded.

uvicorn bounds neither the head of a request nor its requests in a row, nor the time that a client may take over any
part of a request or an answer. A client without any token could fill the server's memory, or hold its descriptors.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import struct
import termios
from collections.abc import Callable, MutableMapping
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..net import ConnectionLimit

MAX_HEAD_BYTES = 64 << 10
"""Of a head, or of what follows the last chunk of a body. One read more may have come by then."""
MAX_HEADERS = 256
"""Of one request. In memory a header takes thirty times its shortest form."""
MAX_PIPELINED = 16
"""Requests that wait on one connection behind the one that is being answered."""
CONNECTION_KEY = "connection"
"""Where the state of a request or WebSocket has its connection."""


class CountedConnection(Protocol):
    """A connection that knows the limit by which it is counted."""

    transport: asyncio.Transport

    @property
    def limit(self) -> ConnectionLimit: ...


class Upgraded(Protocol):
    """What a connection has become."""

    def shutdown(self) -> None: ...


def limited_http_protocol(max_connections: int) -> type[BoundedHttp]:
    """Connections of a server that has at most `max_connections` of them."""
    return type("Http", (BoundedHttp,), {"limit": ConnectionLimit(max_connections)})


def claim_connection(scope: MutableMapping[str, Any], holder: str = "", token_id: str = "") -> bool:
    """Count the connection of an authorised request as known; False when `holder` has its share of connections.

    A server that does not tell its callers apart leaves out `holder`, and `token_id`, which names the holder's token.
    """
    connection: CountedConnection | None = scope.get("state", {}).get(CONNECTION_KEY)
    return connection is None or connection.limit.identify(connection, holder, token_id)


def abort_connection(scope: MutableMapping[str, Any]) -> None:
    """Break the connection of a request, so that its client cannot take a part of the answer for the whole."""
    connection: CountedConnection | None = scope.get("state", {}).get(CONNECTION_KEY)
    if connection is not None:
        connection.transport.abort()


class BoundedHttp(HttpToolsProtocol):
    """One connection. While its client owes something (a head, a body, or to read an answer), that must move."""

    stall_timeout = 30.0
    """Seconds for a head to be complete, also the first, and without progress in anything else; half more at most."""
    limit = ConnectionLimit(1 << 16)
    _keep_alive = True
    _lingering = False
    _unparsed_bytes = 0
    """Bytes since the last one that completed a head or a piece of a body."""
    _progress_count = 0
    """Grows whenever something moves."""
    _last_awaited: tuple[str, int, int] | None = None
    """What the client owed at the last look, and how far it had come."""
    _stalled_once = False
    _stall_timer: asyncio.TimerHandle | None = None
    _upgraded: Upgraded | None = None
    """Set once this is a WebSocket, which then counts in place of it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.limit.add(self)
        self._check_progress()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        self.limit.remove(self)
        super().connection_lost(exc)

    # what comes in

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        before = self._progress_count
        super().data_received(data)
        if self._progress_count != before:
            self._unparsed_bytes = 0
            return
        self._unparsed_bytes += len(data)
        headers = self.headers or []
        if self._unparsed_bytes <= MAX_HEAD_BYTES and len(headers) <= MAX_HEADERS:
            return
        headers.clear()  # they would wait for the garbage collector
        if not self.transport.is_closing():
            self.send_400_response(f"The head has more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][CONNECTION_KEY] = self  # pyright: ignore[reportTypedDictNotRequiredAccess]  uvicorn always has it

    def on_headers_complete(self) -> None:
        self._progress_count += 1
        if len(self.headers) > MAX_HEADERS or len(self.pipeline) >= MAX_PIPELINED:
            self.headers.clear()
            raise ValueError  # the parser stops here, and uvicorn answers 400
        if self._is_upgrade():
            if self.cycle is not None and not self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]  none before the first
                raise ValueError  # its answer would come in the middle of the WebSocket's frames
            super().on_headers_complete()
            return
        super().on_headers_complete()
        output: Any = _Output(self.transport, self._close_after_response)
        self.cycle.transport = output
        # An answer that is given while the body is still owed says `Connection: close`.
        self._keep_alive = self.cycle.keep_alive
        self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._progress_count += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._progress_count += 1
        if not self._is_upgrade() and not self.cycle.response_started:
            self.cycle.keep_alive = self._keep_alive
        super().on_message_complete()

    def _is_upgrade(self) -> bool:
        parser: Any = self.parser
        return parser.should_upgrade() and self._should_upgrade()

    def handle_websocket_upgrade(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        self.limit.remove(self)
        super().handle_websocket_upgrade()
        self._upgraded = self.transport.get_protocol()  # type: ignore[assignment]  the one that was just made

    # what goes out

    def resume_writing(self) -> None:
        self._progress_count += 1
        super().resume_writing()

    def shutdown(self) -> None:
        if self._upgraded is not None:
            self._upgraded.shutdown()
            return
        self._keep_alive = False
        super().shutdown()

    def _close_after_response(self) -> None:
        """End the connection after an answer. A client that is still sending gets the time to read it first: closed at
        once, the connection would break and take the answer with it. The keep-alive timer ends this."""
        if self.cycle.response_complete and self.cycle.more_body:
            self._lingering = True
            self.transport.write_eof()
        else:
            self.transport.close()

    # what is owed

    def _check_progress(self) -> None:
        """Abort the connection when its client has owed the same at two looks before this one."""
        owed = self._awaited_input()
        if owed is None or owed != self._last_awaited:
            self._last_awaited = owed
            self._stalled_once = False
        elif self._stalled_once:
            self.transport.abort()
            return
        else:
            self._stalled_once = True
        self._stall_timer = self.loop.call_later(self.stall_timeout / 2, self._check_progress)

    def _awaited_input(self) -> tuple[str, int, int] | None:
        cycle = self.cycle
        if self.flow.write_paused or self.transport.is_closing():
            return "to read", self._progress_count, self._unsent_bytes()
        if cycle is None or cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]  none before the first
            return "a head", self._progress_count, 0
        if cycle.more_body and not self.flow.read_paused and not cycle.waiting_for_100_continue:
            return "a body", self._progress_count, 0
        return None

    def _unsent_bytes(self) -> int:
        """Bytes that the client has not taken, those in the kernel's buffer included."""
        queued = bytes(4)
        with contextlib.suppress(OSError, ValueError):  # vsock, or closed already: then our own buffer has to do
            queued = fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, queued)
        return self.transport.get_write_buffer_size() + struct.unpack("i", queued)[0]


class _Output:
    """The transport as uvicorn uses it for one answer, with an end of our own.

    The head waits for the first piece of the body within the same step of the event loop, because two packets would
    wake up the client twice.
    """

    __slots__ = ("_close", "_head", "_started", "_write", "is_closing")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._write = transport.write
        self.is_closing = transport.is_closing
        self._close = close
        self._head: bytes | None = None
        self._started = False

    def write(self, data: bytes) -> None:
        if self._head is not None:
            data = self._head + data
            self._head = None
        elif not self._started:
            self._started = True
            self._head = data
            asyncio.get_running_loop().call_soon(self._flush)
            return
        self._write(data)

    def close(self) -> None:
        self._flush()
        self._close()

    def _flush(self) -> None:
        if self._head is not None:
            self._write(self._head)
            self._head = None
