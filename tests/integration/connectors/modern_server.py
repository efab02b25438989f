"""An MCP server that speaks nothing but 2026-07-28, and leaves out of its results what may be left out.

`modern_server.py stdio`, or `modern_server.py http PORT`.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSION = "2026-07-28"
TOOLS = [{"name": "greet", "description": "Greets.", "inputSchema": {"type": "object"}}]
RESULTS: dict[str, Any] = {
    "server/discover": {"supportedVersions": [VERSION], "capabilities": {"tools": {}}},
    "tools/list": {"tools": TOOLS},
    "tools/call": {"content": [{"type": "text", "text": "hello"}]},
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request, by its `_meta` alone: nothing is remembered."""
    asked = request.get("params", {}).get("_meta", {}).get("io.modelcontextprotocol/protocolVersion")
    about = {"jsonrpc": "2.0", "id": request["id"]}
    if asked != VERSION:
        fault = {"code": -32022, "message": "unsupported", "data": {"supported": [VERSION], "requested": asked}}
        return {**about, "error": fault}
    if request["method"] not in RESULTS:
        return {**about, "error": {"code": -32601, "message": "no such method"}}
    return {**about, "result": RESULTS[request["method"]]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        told = (self.headers.get("mcp-protocol-version"), self.headers.get("mcp-method"))
        if told == (VERSION, request["method"]):
            body, status = answer(request), 200
        else:
            body = {"jsonrpc": "2.0", "id": None, "error": {"code": -32020, "message": f"wrong headers: {told}"}}
            status = 400
        sent = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


def main() -> None:
    if sys.argv[1] == "http":
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            print(json.dumps(answer(request)), flush=True)


if __name__ == "__main__":
    main()
