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
    """When the first piece of the body came, or the first that holds the mark."""
    wall: float

    def json(self) -> Any:
        return json.loads(self.body)


class Client(asyncio.Protocol):
    """`await Client.connect(url)`, then one exchange at a time."""

    def __init__(self, host: str) -> None:
        self._host = host

    @classmethod
    async def connect(cls, url: str) -> Self:
        """Opens a connection to the origin of `url`."""
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(lambda: cls(parts.netloc), parts.hostname or "", parts.port or 80)
        return client

    async def get(self, path: str) -> Exchange:
        return await self.exchange("GET", path)

    async def post(self, path: str, body: Any, mark: bytes = b"") -> Exchange:
        return await self.exchange("POST", path, json.dumps(body).encode(), mark)

    async def exchange(self, method: str, path: str, body: bytes = b"", mark: bytes = b"") -> Exchange:
        """Sends one request and reads the reply to its end. Raises TimeoutError or ConnectionError."""
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._first, self._mark = 0.0, mark
        self._done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-length: {len(body)}\r\n"
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
        if hasattr(self, "_done") and not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server closed the connection"))

    def on_body(self, body: bytes) -> None:
        if not self._first and self._mark in body:
            self._first = time.perf_counter()
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        if not self._done.done():
            self._done.set_result(time.perf_counter())
