"""A web service that repeats what it was sent, as many do somewhere, and that misbehaves as it is asked to."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

BASE = "/base"


class EchoService(ThreadingHTTPServer):
    """Serves on a free port while its block lasts."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        self.tokens = 0
        """How many tokens it has given."""
        self.valid = True
        """Whether it takes the tokens that it gives."""
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{BASE}"

    def __enter__(self) -> EchoService:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that are broken off are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: EchoService  # pyright: ignore[reportIncompatibleVariableOverride]

    def answer(self) -> None:
        split = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else self._chunked()
        seen = {
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": body.decode("latin-1"),
        }
        self.server.requests.append(seen)
        parts = split.path.removeprefix(BASE).split("/")
        action = getattr(self, f"on_{parts[1]}", None)
        query = {name: values[0] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
        with contextlib.suppress(OSError):
            action(seen, query) if action else self.reply(json.dumps(seen).encode(), "application/json")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # one for each method
            return self.answer
        raise AttributeError(name)

    def _chunked(self) -> bytes:
        body = b""
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return body

    def reply(self, body: bytes, kind: str = "text/plain", status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def secret(self, seen: dict[str, Any]) -> str:
        """What it was given as a credential."""
        query = parse_qs(urlsplit(seen["path"]).query)
        given = seen["headers"].get("x-api-key") or query.get("api_key", [""])[0]
        return given or seen["headers"].get("authorization", "").partition(" ")[2]

    # actions

    def on_encoded(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        """Repeat the credential in another encoding."""
        secret = self.secret(seen)
        raw = secret.encode()
        forms = {
            "plain": secret,
            "upper": secret.upper(),
            "percent": quote(secret, safe=""),
            "percent_all": "".join(f"%{byte:02x}" for byte in raw),
            "percent_twice": quote(quote(secret, safe=""), safe=""),
            "json": "".join(f"\\u{ord(one):04x}" for one in secret),
            "html": "".join(f"&#{ord(one)};" for one in secret),
            "html_hex": "".join(f"&#x{ord(one):X};" for one in secret),
            "hex": raw.hex(),
            "mixed": "".join(one if at % 2 else f"%{ord(one):02X}" for at, one in enumerate(secret)),
            **{f"base64_{n}": base64.b64encode(b"xyz"[:n] + raw + b"tail").decode() for n in range(3)},
            **{f"base64url_{n}": base64.urlsafe_b64encode(b"xyz"[:n] + raw).decode() for n in range(3)},
            "base64_lines": base64.encodebytes(b"a" * 40 + raw + b"b" * 40).decode(),
        }
        self.reply(forms[query["as"]].encode())

    def on_header(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        self.reply(b"see the header", x_echo=f"key={self.secret(seen)};", set_cookie=f"k={self.secret(seen)}")

    def on_name(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        names: dict[str, Any] = {f"x-{self.secret(seen)}": "yes"}
        self.reply(b"see the names", **names)

    def on_split(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        """Repeat the credential, a byte at a time."""
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for byte in f"<<{self.secret(seen)}>>".encode():
            self.wfile.write(b"1\r\n%c\r\n" % byte)
            self.wfile.flush()
            time.sleep(0.002)
        self.wfile.write(b"0\r\n\r\n")

    def on_events(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        """A stream that says something and then waits for the other side to be gone."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"data: one\n\n")
        self.wfile.flush()
        self.connection.settimeout(60)
        self.connection.recv(1)
        self.server.requests.append({"path": "gone"})

    def on_trailer(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.send_header("trailer", "x-secret")
        self.end_headers()
        self.wfile.write(f"2\r\nhi\r\n0\r\nx-secret: {self.secret(seen)}\r\n\r\n".encode())

    def on_repeated(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        """Answer with some headers twice, such as `?x-list=a,b`."""
        self.send_response(200)
        for name, values in query.items():
            for value in values.split(","):
                self.send_header(name, value)
        self.send_header("content-length", "0")
        self.end_headers()

    def on_zipped(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        import gzip

        self.reply(gzip.compress(self.secret(seen).encode()), content_encoding="gzip")

    def on_redirect(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        to = query["to"].replace("SECRET", self.secret(seen)).replace("HERE", self.headers["host"])
        self.reply(self.secret(seen).encode(), status=int(query.get("status", "302")), location=to)

    def on_large(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for _ in range(int(query["mib"])):
            self.wfile.write(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def on_broken(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("content-length", "100")
        self.end_headers()
        self.wfile.write(b"half")
        self.close_connection = True

    def on_silent(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        self.connection.settimeout(60)
        self.connection.recv(1)

    def on_status(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        self.reply(b"so be it", status=int(query["is"]), retry_after="7", www_authenticate="Basic")

    def on_token(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        self.server.tokens += 1
        body = {"access_token": f"oauth-token-{self.server.tokens}", "expires_in": 3600}
        self.reply(json.dumps(body).encode(), "application/json", 200 if self.server.valid else 403)

    def on_guarded(self, seen: dict[str, Any], query: dict[str, str]) -> None:
        """Takes the latest token alone."""
        latest = f"Bearer oauth-token-{self.server.tokens}"
        is_right = self.headers.get("authorization") == latest and self.server.valid
        self.reply(b"come in" if is_right else b"who are you", status=200 if is_right else 401)

    def log_message(self, format: str, *args: object) -> None:
        pass
