"""The load client: one keep-alive connection over httptools, so that the client is not what is measured."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any, Self, cast
from urllib.parse import urlsplit

import httptools

_TIMEOUT = 120.0  # seconds for one exchange


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its reply. Times are seconds since the request was written."""

    status: int
    body: bytes
    first: float
    """When the first piece of the body came, or the one with which the mark had come so many times."""
    wall: float

    def json(self) -> Any:
        return json.loads(self.body)


class Client(asyncio.Protocol):
    """`await Client.connect(url)`, then one exchange at a time."""

    def __init__(self, host: str, prefix: str = "", token: str | None = None) -> None:
        """`prefix`: what every path begins with. `token`: the bearer token of every request, or None."""
        self._prefix = prefix
        self._headers = f"host: {host}\r\n" + (f"authorization: Bearer {token}\r\n" if token else "")
        self._lost = False
        self.heard = asyncio.Event()
        """In this exchange the mark has come so many times."""

    @classmethod
    async def connect(cls, url: str, prefix: str = "", token: str | None = None) -> Self:
        """Opens a connection to the origin of `url`."""
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(
            lambda: cls(parts.netloc, prefix, token), parts.hostname or "", parts.port or 80
        )
        return client

    async def get(self, path: str) -> Exchange:
        return await self.exchange("GET", path)

    async def post(self, path: str, body: Any, mark: bytes = b"", times: int = 1) -> Exchange:
        return await self.exchange("POST", path, json.dumps(body).encode(), mark, times)

    async def put(self, path: str, body: Any) -> Exchange:
        return await self.exchange("PUT", path, json.dumps(body).encode())

    async def exchange(
        self, method: str, path: str, body: bytes = b"", mark: bytes = b"", times: int = 1, *, leave: bool = False
    ) -> Exchange:
        """Sends one request and reads the reply to its end, or until the mark has come so many times if it is to
        `leave` then; the connection is of no more use after that. Raises TimeoutError or ConnectionError."""
        if self._lost:  # unused for longer than the server keeps a connection
            raise ConnectionError("the server closed the connection")
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._first, self._mark, self._leave = 0.0, mark, leave
        self._wanted, self._tail = times, b""
        self.heard.clear()
        self._done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._headers}content-length: {len(body)}\r\n"
        kind = "content-type: application/json\r\n\r\n" if body else "\r\n"
        started = time.perf_counter()
        self._transport.write((head + kind).encode() + body)
        async with asyncio.timeout(_TIMEOUT):
            ended = await self._done
        status = self._parser.get_status_code()
        return Exchange(status, b"".join(self._pieces), self._first - started, ended - started)

    def close(self) -> None:
        self._transport.close()

    # asyncio's and httptools' callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if hasattr(self, "_done") and not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server closed the connection"))

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        if self._first:
            return
        text = self._tail + body  # a mark may come in two pieces
        self._wanted -= text.count(self._mark) if self._mark else 1
        self._tail = text[max(0, len(text) - len(self._mark) + 1) :] if self._mark else b""
        if self._wanted <= 0:
            self._first = time.perf_counter()
            self.heard.set()
            if self._leave and not self._done.done():
                self._done.set_result(self._first)

    def on_message_complete(self) -> None:
        if not self._done.done():
            self._done.set_result(time.perf_counter())
