"""Send one HTTP request over its own connection, and read the reply with limits on its size and time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ...errors import ToolFailure
from ..client.reply import InvalidReply, ReplyParser
from .upstream import ByteStream

PIECE = 64 * 1024


class HttpExchange(ReplyParser):
    """`send`, then read the status, the headers and the body by `read`. Raises ToolFailure."""

    def __init__(self, stream: ByteStream, host: str, idle_seconds: float) -> None:
        super().__init__()
        self._stream = stream
        self._host = host
        self._idle = idle_seconds

    async def send(self, request: bytes) -> None:
        """Write the request and wait for the head of its reply."""
        self.expect_reply()
        self._stream.writer.write(request)
        while not self.status:
            if not await self._receive():
                raise ToolFailure(f"{self._host} hung up before it answered")

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        while True:
            ready = self.pieces
            self.pieces = []
            self.waiting_bytes = 0
            for piece in ready:
                yield piece
            if self.done:
                return
            if not await self._receive():
                if self.until_close:
                    return
                raise ToolFailure(f"{self._host} hung up in the middle of its answer")

    async def _receive(self) -> bool:
        """Parse the next piece; False: the connection is over."""
        try:
            async with asyncio.timeout(self._idle):
                data = await self._stream.reader.read(PIECE)
        except TimeoutError as error:
            raise ToolFailure(f"{self._host} sent nothing for {self._idle:g} s", kind="timeout") from error
        except OSError as error:
            raise ToolFailure(f"the connection to {self._host} broke: {error.strerror or error}") from error
        try:
            if data:
                self.feed(data)
        except InvalidReply as error:
            if not self.done:
                raise ToolFailure(f"{self._host}: {error}") from error
        return bool(data)
