"""One HTTP/1.1 connection of a client.

Model calls are most of the server's work in a turn, and parsing heads and chunks in Python was most of a model call.
Pieces of a body that have arrived together are returned together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

from ...errors import AgentRuntimeError
from .reply import InvalidReply, ReplyParser

HIGH_WATER = 256 * 1024
"""Bytes of a body that may wait for their reader before the socket is no longer read."""
_MOST_PIECES = 64
"""More that wait are joined: a piece of two bytes takes forty."""


class TransportFault(AgentRuntimeError):
    """The connection failed."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        """Whether the connection was open, but nothing came in time."""
        self.before_body = False
        """Whether the head of the reply had come, and nothing of its body."""


class HttpConnection(ReplyParser, asyncio.Protocol):
    """A connection for one exchange at a time: `send`, then `read` until it returns nothing."""

    high_water = HIGH_WATER

    def __init__(self) -> None:
        super().__init__()
        self.idle_since = 0.0
        """The event loop's time since when the connection is idle, set by the pool."""
        self._waiter: asyncio.Future[None] | None = None
        self._open = False
        self._is_cut_off = False
        """Whether a request was not sent to its end."""
        self._writable: asyncio.Future[None] | None = None
        self._fault = "the connection was lost"

    @property
    def reusable(self) -> bool:
        """Whether the last exchange is complete and the server has not closed the connection."""
        return self._open and self.done and self.keep_alive and not self._is_cut_off

    async def send(self, data: bytes, seconds: float) -> None:
        """Write a whole request and read the head of the reply. Never sends it twice. Raises TransportFault."""
        self.begin(data)
        await self.read_head(seconds)

    async def send_stream(self, head: bytes, pieces: AsyncIterator[bytes], seconds: float) -> None:
        """Write a request whose body comes in pieces, and read the head of the reply. A server that answers before the
        end of the body does not get the rest, and the connection is not used again. Raises TransportFault."""
        self.begin(head)
        try:
            async for piece in pieces:
                if self.status or not self._open:
                    self._is_cut_off = True
                    break
                await self.write(piece, seconds)
        except BaseException:
            self.close()
            raise
        await self.read_head(seconds)

    def begin(self, data: bytes) -> None:
        """Write the head of a request, and its body as far as it is known."""
        self.expect_reply()
        if self._open:
            self._transport.write(data)

    async def read_head(self, seconds: float) -> None:
        """Wait for the head of the reply. Raises TransportFault."""
        try:
            while not self.status:
                await self._wait_for_data(seconds)
        except BaseException:
            self.close()
            raise

    async def write(self, data: bytes, seconds: float) -> None:
        """Write a piece of the request's body, and wait while the server does not read. Raises TransportFault."""
        if self._open:
            self._transport.write(data)
        if self._writable is None:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._writable
        except TimeoutError as error:
            self.close()
            raise TransportFault(f"the server did not read for {seconds:g} s", timed_out=True) from error

    async def read(self, seconds: float) -> bytes:
        """Return the part of the body that has arrived; empty at its end. Raises TransportFault."""
        while not self.pieces:
            if self.done:
                return b""
            await self._wait_for_data(seconds)
        data = b"".join(self.pieces)
        self.pieces.clear()
        if self.waiting_bytes > self.high_water and self._open:
            self._transport.resume_reading()
        self.waiting_bytes = 0
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
        if self.done:  # unsolicited data
            self.close()
            return
        waited = self.waiting_bytes
        try:
            self.feed(data)
        except InvalidReply as error:
            self._fault = f"{error},"
            self.close()
        if self.unsolicited:
            self.close()
        if len(self.pieces) > _MOST_PIECES:
            self.pieces = [b"".join(self.pieces)]
        if self.waiting_bytes > self.high_water >= waited and self._open:
            self._transport.pause_reading()
        self._wake()

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._open = False
        self.resume_writing()
        self.done = self.done or self.until_close
        self._wake()


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
