"""What an answer takes in memory while its reader does not read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from sys import getsizeof
from typing import Any, cast

from agent_host.gateway.connections import HIGH_WATER, AgentConnection
from agent_host.gateway.exchange import Exchange, RequestBody

PATIENCE = 30.0
CHUNK = b"2\r\nab\r\n"
CHUNKS = 1 << 18
RECEIVED_AT_ONCE = 256 << 10


class Connection(AgentConnection):
    """One that shows its transport."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", transport)


@asynccontextmanager
async def answering(reply: bytes) -> AsyncGenerator[Connection]:
    """A connection to an agent that gives this answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        ended.set()

    ended = asyncio.Event()

    async with asyncio.timeout(PATIENCE), await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        _, connection = await asyncio.get_running_loop().create_connection(Connection, host, port)
        yield connection
        connection.close()
        await ended.wait()


async def test_an_answer_in_tiny_chunks_takes_about_its_bytes_and_is_passed_on_in_small_pieces() -> None:
    got: list[bytes] = []
    reads = asyncio.Event()
    gone = asyncio.Event()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            got.append(message["body"])
            await reads.wait()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    scope: dict[str, Any] = {"type": "http", "method": "GET", "headers": []}
    reply = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNK * CHUNKS + b"0\r\n\r\n"
    async with answering(reply) as connection:
        exchange = Exchange(scope, RequestBody(scope, receive), send, connection, b"", b"")  # type: ignore[arg-type]
        running = asyncio.create_task(exchange.run(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", None))
        while connection.transport.is_reading():
            await asyncio.sleep(0.01)
        assert connection.waiting_bytes <= HIGH_WATER + RECEIVED_AT_ONCE // 3
        assert sum(getsizeof(piece) for piece in connection.pieces) < 2 * connection.waiting_bytes
        reads.set()
        await running
    assert exchange.complete
    assert b"".join(got) == b"ab" * CHUNKS
    assert max(len(piece) for piece in got) <= 64 << 10
