"""An MCP server over HTTP that means no good: each answer is what a test makes of the request."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "hostile", "version": "1"},
}
OBJECT = {"type": "object"}
EVENTS = {"content-type": "text/event-stream"}

Message = Mapping[str, Any]
Answer = Callable[[Message], Any]
"""Makes the result of a request, or a Raw answer."""


class Raw:
    """An answer as it goes over the wire: a head, and a body of any length."""

    def __init__(self, body: Iterator[bytes], status: int = 200, **headers: str) -> None:
        self.body, self.status = body, status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def text(words: str) -> dict[str, Any]:
    """The result of a call."""
    return {"content": [{"type": "text", "text": words}]}


def reply(message: Message, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()


@contextmanager
def hostile_server(tools: Answer, call: Answer = lambda _: text("fine"), **headers: str) -> Generator[str]:
    """Yield the address of a server with these answers to `tools/list` and `tools/call`. `headers` go with all."""
    answers: dict[str, Answer] = {"initialize": lambda _: INITIALIZED, "tools/list": tools, "tools/call": call}
    given = {name.replace("_", "-"): value for name, value in headers.items()}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if "id" not in message:
                self.send(Raw(iter(()), 202))
            elif message["method"] not in answers:
                error = {"code": -32601, "message": "Method not found"}
                self.send(Raw(iter((json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode(),))))
            else:
                made = answers[message["method"]](message)
                self.send(made if isinstance(made, Raw) else Raw(iter((reply(message, made),))))

        def do_GET(self) -> None:
            self.send(Raw(iter(()), 405))

        def send(self, answer: Raw) -> None:
            self.close_connection = True
            with suppress(OSError):
                self.send_response(answer.status)
                for name, value in {"content-type": "application/json", **given, **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for piece in answer.body:
                    self.wfile.write(piece)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        server.server_close()
