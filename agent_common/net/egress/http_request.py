"""Send one HTTP request over its own connection, and read the answer with limits on its size and time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httptools

from ...errors import ToolFailure
from .upstream import ByteStream

PIECE = 64 * 1024
MAX_HEAD_BYTES = 64 * 1024
_FINAL = 200


class HttpExchange:
    """One request and its answer: call `send`, then read status, headers and `pieces`. Raises ToolFailure."""

    def __init__(self, stream: ByteStream, host: str, idle_seconds: float) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """Response headers, with lower-case names. If a name is repeated, the first value counts."""
        self._stream, self._host, self._idle = stream, host, idle_seconds
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._done = False

    async def send(self, request: bytes) -> None:
        """Write the request and wait for the head of the answer."""
        self._stream.writer.write(request)
        heard = 0
        while not self.status:
            data = await self._read()
            heard += len(data)
            if not data:
                raise ToolFailure(f"{self._host} hung up before it answered")
            self._feed(data)
            if heard > MAX_HEAD_BYTES and not self.status:
                raise ToolFailure(f"{self._host} sent headers of more than {MAX_HEAD_BYTES // 1024} KB")

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        while True:
            ready, self._pieces = self._pieces, []
            for piece in ready:
                yield piece
            if self._done:
                return
            data = await self._read()
            if data:
                self._feed(data)
            elif self._body_until_close:
                return
            else:
                raise ToolFailure(f"{self._host} hung up in the middle of its answer")

    @property
    def _body_until_close(self) -> bool:
        return "content-length" not in self.headers and "transfer-encoding" not in self.headers

    async def _read(self) -> bytes:
        try:
            async with asyncio.timeout(self._idle):
                return await self._stream.reader.read(PIECE)
        except TimeoutError as error:
            raise ToolFailure(f"{self._host} sent nothing for {self._idle:g} s", kind="timeout") from error
        except OSError as error:
            raise ToolFailure(f"the connection to {self._host} broke: {error.strerror or error}") from error

    def _feed(self, data: bytes) -> None:
        if self._done:
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._done:
                raise ToolFailure(f"the answer of {self._host} is not valid HTTP ({error})") from error

    # httptools' callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:  # trailers are ignored
            self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= _FINAL:
            self.status = self.status or status
        else:
            self.headers.clear()  # an interim response

    def on_body(self, body: bytes) -> None:
        if not self._done:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        self._done = self._done or self.status >= _FINAL
