"""An MCP server over HTTP whose answers a test writes: `odd_server(handler)` on the test's own loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "odd", "version": "1"},
}
OK_TOOL = {"name": "ok", "description": "Fine.", "inputSchema": {"type": "object"}}
FINE = {"content": [{"type": "text", "text": "fine"}]}


@dataclass
class Sent:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    message: dict[str, Any]

    @property
    def asks(self) -> str:
        return self.message.get("method", "")


@dataclass
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cut: bool = False
    """Whether the connection is then closed, in the middle of the body if that is shorter than its length."""

    @classmethod
    def result(cls, sent: Sent, result: Any, **headers: str) -> Reply:
        return cls(
            200, json.dumps({"jsonrpc": "2.0", "id": sent.message.get("id"), "result": result}).encode(), headers
        )

    @classmethod
    def error(cls, sent: Sent, code: int, message: str, status: int = 200) -> Reply:
        told = {"jsonrpc": "2.0", "id": sent.message.get("id"), "error": {"code": code, "message": message}}
        return cls(status, json.dumps(told).encode())


Handler = Callable[[Sent], Awaitable[Reply]]


def usual(sent: Sent, **results: Any) -> Reply:
    """What a plain server of 2025-11-25 answers; `results` by the last word of the method."""
    if sent.method != "POST":
        return Reply(405)
    if "id" not in sent.message:
        return Reply(202)
    known = {"initialize": INITIALIZED, "list": {"tools": [OK_TOOL]}, "call": FINE, **results}
    word = sent.asks.rpartition("/")[2]
    return Reply.result(sent, known[word]) if word in known else Reply.error(sent, -32601, "Method not found")


@asynccontextmanager
async def odd_server(handler: Handler) -> AsyncGenerator[str]:
    """Yield the server's address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *rest = head.decode("latin-1").split("\r\n")
                headers = dict(one.lower().split(": ", 1) for one in rest if ": " in one)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method, path, _ = line.split(" ", 2)
                reply = await handler(Sent(method, path, headers, json.loads(body) if body else {}))
                given = {"content-type": "application/json", "content-length": str(len(reply.body)), **reply.headers}
                lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
                lines += [f"{name}: {value}" for name, value in given.items()]
                writer.write("\r\n".join((*lines, "", "")).encode() + reply.body)
                await writer.drain()
                if reply.cut:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()
