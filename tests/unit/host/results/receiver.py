"""A receiver of callbacks on a real socket, which answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

Answer = Callable[["Received"], bytes | None]
"""Returns the raw reply to a request; None: none comes."""


@dataclass(frozen=True, slots=True)
class Received:
    """One request."""

    target: str
    headers: dict[str, str]
    body: bytes


def reply(status: int, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in headers)
    return f"HTTP/1.1 {status} x\r\n{lines}content-length: 0\r\n\r\n".encode()


OK = reply(204)


class Receiver:
    """Listens on a free port of this machine."""

    def __init__(self, answer: Answer = lambda _: OK) -> None:
        self.answer, self.received = answer, list[Received]()
        self.changed = asyncio.Condition()
        self._hanging = asyncio.Event()
        self._open = 0
        self.most_open = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._hanging.set()
        self._server.close()
        await self._server.wait_closed()

    def url(self, path: str = "/done") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(holds)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        self.most_open = max(self.most_open, self._open)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.splitlines()
            headers = dict(line.lower().split(": ", 1) for line in lines if line)
            body = await reader.readexactly(int(headers["content-length"]))
            request = Received(first.split()[1], headers, body)
            answer = self.answer(request)
            async with self.changed:
                self.received.append(request)
                self.changed.notify_all()
            if answer is None:
                await self._hanging.wait()
            else:
                writer.write(answer)
                await writer.drain()
        finally:
            self._open -= 1
            writer.close()
