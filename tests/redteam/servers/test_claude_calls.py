"""Calls that are long to convert for Claude: they cost what they weigh, and other agents are served meanwhile."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.host.live import PATIENCE

from .test_host_input import SmallHost

CALLS, PIECES = 40_000, 60_000
ANSWER = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": "done"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
).encode()
SAME_ID = [{"id": "same", "function": {"name": "f"}}] * CALLS
RESULTS = [{"role": "tool", "tool_call_id": f"c{number}", "content": "x"} for number in reversed(range(CALLS))]
HISTORIES: dict[str, list[dict[str, Any]]] = {
    "calls with one id": [{"role": "assistant", "tool_calls": SAME_ID}],
    "results from the last to the first": [
        {
            "role": "assistant",
            "tool_calls": [{"id": f"c{number}", "function": {"name": "f"}} for number in range(CALLS)],
        },
        *RESULTS,
    ],
    "one thought in many pieces": [
        {"role": "assistant", "content": "x", "reasoning_details": [{"index": 0, "text": "x" * 400}] * PIECES}
    ],
}


class Claude(http.server.BaseHTTPRequestHandler):
    """Reads a request and says "done"."""

    def do_POST(self) -> None:
        left = int(self.headers["content-length"])
        while left and (piece := self.rfile.read(min(left, 1 << 20))):
            left -= len(piece)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallHost]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Claude) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        given = {"ANTHROPIC_API_KEY": "sk-ant", "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}"}
        try:
            with SmallHost(tmp_path_factory.mktemp("claude"), **given) as host:
                yield host
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_a_history_is_converted_in_the_time_of_its_length(host: SmallHost, history: list[dict[str, Any]]) -> None:
    messages = [{"role": "user", "content": "hi"}, *history, {"role": "user", "content": "go on"}]
    body = json.dumps({"model": "default", "messages": messages}).encode()
    with host.client(host.token("evil")) as agent, host.watched(host.token("good")):
        reply = agent.post("/v1/chat/completions", content=body, timeout=PATIENCE)
    assert reply.status_code == 200, reply.text[:300]
    assert reply.json()["choices"][0]["message"]["content"] == "done"
