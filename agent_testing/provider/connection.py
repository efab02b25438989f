"""One HTTP/1.1 connection of the provider: httptools reads requests, which are answered in order."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

import httptools

from .record import Recorded
from .wire import Close, Hold, Pause, WireReply, json_reply


class ProviderHost(Protocol):
    """The provider that a connection belongs to."""

    connections: set[ProviderConnection]

    def respond(self, request: Recorded) -> WireReply: ...

    def reply_sent(self, request: Recorded) -> None: ...

    @property
    def released(self) -> asyncio.Event: ...


class ProviderConnection(asyncio.Protocol):
    """Answers requests in order. Replies without pauses are written in the call that read the request."""

    def __init__(self, host: ProviderHost) -> None:
        self._host = host
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[Recorded] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._last = False
        self.on_message_begin()

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._host.connections.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._write(json_reply(400, {"error": {"message": str(error)}}, "connection: close"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._host.connections.discard(self)
        self._waiting.clear()
        if self._sending:
            self._sending.cancel()

    # httptools' callbacks

    def on_message_begin(self) -> None:
        self._path = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._last = not self._parser.should_keep_alive()
        method = self._parser.get_method().decode()
        path = self._path.decode("latin-1")
        request = Recorded(method, path, self._headers, b"".join(self._body), time.monotonic())
        if self._sending:
            self._waiting.append(request)
        else:
            self._answer(request)

    # answering

    def _answer(self, request: Recorded) -> None:
        # Taken before the request is on record, because whoever sees it there may release it before the task begins.
        released = self._host.released
        reply = self._host.respond(request)
        for position, item in enumerate(reply):
            if not isinstance(item, bytes):
                self._sending = asyncio.create_task(self._send_slowly(request, reply[position:], released))
                return
            self._write(item)
        self._finish(request)

    async def _send_slowly(self, request: Recorded, reply: WireReply, released: asyncio.Event) -> None:
        for item in reply:
            match item:
                case bytes():
                    self._write(item)
                case Pause():
                    await asyncio.sleep(item.seconds)
                    released = self._host.released
                case Close():
                    self.close()
                case Hold():
                    if not await _in_time(released.wait, item.seconds):
                        self.close()
                    released = self._host.released
        self._sending = None
        self._finish(request)
        while self._waiting and self._sending is None:
            self._answer(self._waiting.popleft())

    def _finish(self, request: Recorded) -> None:
        self._host.reply_sent(request)
        if self._last and not self._waiting:
            self.close()

    def _write(self, data: bytes) -> None:
        if self._transport:
            self._transport.write(data)

    def close(self) -> None:
        """End the connection once all written bytes are sent."""
        if self._transport:
            self._transport.close()

    def abort(self) -> asyncio.Task[None] | None:
        """End the connection at once. Return the cancelled task of a reply in progress; None if there is none."""
        if self._transport:
            self._transport.abort()
        if self._sending:
            self._sending.cancel()
        return self._sending


async def _in_time(event: Callable[[], Awaitable[object]], seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event()
    except TimeoutError:
        return False
    return True
