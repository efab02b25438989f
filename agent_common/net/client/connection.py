"""One HTTP/1.1 connection of a client, parsed by httptools.

Model calls are most of the server's work in a turn, and parsing heads and chunks in Python was most of a model call.
Pieces of a body that have arrived together are returned together.
"""

from __future__ import annotations

import asyncio
from typing import cast

import httptools

from ...errors import AgentRuntimeError

HIGH_WATER = 256 * 1024
"""Bytes of a body that may wait for their reader before the socket is no longer read."""
_FINAL = 200
"""Responses with a lower status are interim ones."""


class TransportFault(AgentRuntimeError):
    """The connection failed."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        """Whether the connection was open, but nothing came in time."""


class HttpConnection(asyncio.Protocol):
    """A connection for one exchange at a time: `send`, then `read` until it returns nothing."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """Response headers, with lower-case names."""
        self.idle_since = 0.0
        """The event loop's time since when the connection is idle, set by the pool."""
        self._waiter: asyncio.Future[None] | None = None
        self._open = self._keep_alive = False
        self._done = True
        self._fault = "the connection was lost"

    @property
    def reusable(self) -> bool:
        """Whether the last exchange is complete and the server has not closed the connection."""
        return self._open and self._done and self._keep_alive

    async def send(self, data: bytes, seconds: float) -> None:
        """Write a whole request and read the head of the reply. Never sends it twice. Raises TransportFault."""
        self._parser = httptools.HttpResponseParser(self)
        self.status, self.headers = 0, {}
        self._pieces: list[bytes] = []
        self._buffered_bytes = 0
        self._done = self._keep_alive = False
        self._transport.write(data)
        try:
            while not self.status:
                await self._wait_for_data(seconds)
        except BaseException:
            self.close()
            raise

    async def read(self, seconds: float) -> bytes:
        """Return the part of the body that has arrived; empty at its end. Raises TransportFault."""
        while not self._pieces:
            if self._done:
                return b""
            await self._wait_for_data(seconds)
        data = b"".join(self._pieces)
        self._pieces.clear()
        if self._buffered_bytes > HIGH_WATER and self._open:
            self._transport.resume_reading()
        self._buffered_bytes = 0
        return data

    def close(self) -> None:
        """Close the connection at once."""
        if self._open:
            self._open = False
            self._transport.abort()

    async def _wait_for_data(self, seconds: float) -> None:
        if not self._open:
            raise TransportFault(f"{self._fault} {'in the middle of' if self.status else 'before'} a reply")
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        alarm = loop.call_later(seconds, _expire, waiter)
        try:
            await waiter
        except TimeoutError as error:
            self.close()
            raise TransportFault(f"nothing came for {seconds:g} s", timed_out=True) from error
        finally:
            self._waiter = None
            alarm.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open = True

    def data_received(self, data: bytes) -> None:
        if self._done:  # unsolicited data
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fault = f"what came is not HTTP ({error}),"
            self.close()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open = False
        if self.status and "content-length" not in self.headers and "transfer-encoding" not in self.headers:
            self._done = True  # a body without a length ends with its connection
        self._wake()

    # httptools' callbacks

    def on_message_begin(self) -> None:
        if self._done:  # an unsolicited reply follows the expected one
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._done:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < _FINAL:
            self.headers.clear()
        elif not self._done:
            self.status = status

    def on_body(self, body: bytes) -> None:
        if self._done:
            return
        self._pieces.append(body)
        self._buffered_bytes += len(body)
        if self._buffered_bytes > HIGH_WATER >= self._buffered_bytes - len(body):
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.status and not self._done:
            self._keep_alive = self._parser.should_keep_alive()
            self._done = True


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
