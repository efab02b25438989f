"""A host of which only the deliveries of topics are there, as a test says: for what a real one does seldom."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

PATIENCE = 60.0
Answer = dict[str, Any] | None
"""None: the connection ends without one."""


class FakeMesh:
    """Answers questions for deliveries, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], Answer] = _nothing_new
        self._news = threading.Condition()
        mesh = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
                if not self.path.startswith("/subscriptions"):
                    return self._send(404, {})
                answer = mesh.take(body)
                if answer is None:
                    self.close_connection = True
                    return None
                return self._send(200, answer)

            def do_GET(self) -> None:
                self._send(404, {})

            def _send(self, status: int, body: dict[str, Any]) -> None:
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, body: dict[str, Any]) -> Answer:
        answer = self.answer(body)
        with self._news:
            self.asked.append(body)
            self._news.notify_all()
        return answer

    def wait_for(self, found: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first question that is so."""
        with self._news:
            assert self._news.wait_for(lambda: any(map(found, self.asked)), PATIENCE), self.asked[-5:]
            return next(filter(found, self.asked))


def _nothing_new(_: dict[str, Any]) -> Answer:
    """There is a subscription, so that the agent goes on to ask."""
    time.sleep(0.05)
    return deliveries(subscriptions={"sub_gone": "ses_gone"})


def deliveries(*found: dict[str, Any], subscriptions: dict[str, str] | None = None) -> dict[str, Any]:
    named = [{"id": one, "session": session} for one, session in (subscriptions or {}).items()]
    return {"deliveries": [*found], "subscriptions": named}


def delivery(name: str, session: str, *messages: tuple[str, int, str], **dropped: int) -> dict[str, Any]:
    """`messages`: subscription, seq and data."""
    return {
        "id": name,
        "session": session,
        "dropped": dropped,
        "messages": [
            {"subscription_id": one, "topic": "orders", "id": f"m{seq}", "seq": seq, "by": "ann", "at": 1, "data": data}
            for one, seq, data in messages
        ],
    }
