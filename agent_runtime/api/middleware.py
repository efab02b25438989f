"""Checks before every route: the token, cross-site requests, and the limit of the body."""

from __future__ import annotations

import hmac
import ipaddress

from starlette.types import ASGIApp, Receive, Scope, Send

from agent_common.api import LimitedBody, problem_response
from agent_common.http import claim_connection

from .body_limits import create_body_limits, most_bytes

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Routes without a token: they return reason codes but no data."""


READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class AuthMiddleware:
    """ASGI middleware: 401 without the token, 403 for a browser's cross-site request, 413 for a body over its limit,
    429 over the budget of all bodies.

    A browser's request can carry the token if a proxy adds it, and pages of any site can reach that proxy.
    """

    def __init__(self, app: ASGIApp, token: str | None, *, refuse_remote_work: bool = False) -> None:
        """`refuse_remote_work`: refuse work over HTTP unless the caller is on this machine
        (docs/reference/mediation.md#failing-closed)."""
        self._app = app
        self._expected = token.encode() if token else None
        self._refuse_remote_work = refuse_remote_work
        self._limits = create_body_limits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        path: str = scope["path"]
        if self._expected is not None and path not in OPEN_PATHS and not self._authorized(headers):
            wrong = "this is not the server's token: " if b"authorization" in headers else ""
            detail = f"{wrong}send the server's token: Authorization: Bearer TOKEN"
            refusal = problem_response(401, "unauthorized", detail, path, headers={"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
        elif headers.get(b"sec-fetch-site") == b"cross-site":
            detail = "this request comes from a page of another site: serve your page and its proxy as one site"
            await problem_response(403, "cross_site", detail, path)(scope, receive, send)
        elif self._expected is None and not _is_local_request(headers):
            detail = "without a token this server answers only requests to localhost (Host, Origin): set AGENT_TOKEN"
            await problem_response(403, "cross_site", detail, path)(scope, receive, send)
        elif path not in OPEN_PATHS and not claim_connection(scope):
            detail = "all connections for callers with the token are in use; close some, or use them again"
            close = {"Retry-After": "1", "Connection": "close"}
            await problem_response(429, "too_many_connections", detail, path, headers=close)(scope, receive, send)
        elif self._refuse_remote_work and scope["method"] not in READ_METHODS and not _is_local_peer(scope):
            detail = "work comes over the mediation channel; this route answers only callers on loopback"
            await problem_response(403, "mediated_only", detail, path)(scope, receive, send)
        elif not headers.get(b"content-length", b"0").isdigit():
            await problem_response(400, "bad_request", "Content-Length is not a number", path)(scope, receive, send)
        elif int(headers.get(b"content-length", b"0")) > most_bytes(path):
            refusal = self._limits.refuse_too_large()
            await problem_response(413, refusal.code, refusal.detail, path)(scope, receive, send)
        else:
            await self._limited(scope, receive, send)

    def _authorized(self, headers: dict[bytes, bytes]) -> bool:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._expected or b"")

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app and count the body while it is read."""
        body = LimitedBody(self._limits, receive).attach(scope)
        try:
            await self._app(scope, body.receive, send)
        finally:
            body.release()


def _is_local_request(headers: dict[bytes, bytes]) -> bool:
    """Return whether the Host and Origin headers name this machine. They do not in a request that a page of another
    site makes a browser send, directly or by DNS rebinding, against which listening on loopback alone does not help."""
    host = headers.get(b"host") or b"localhost"
    origin = headers.get(b"origin", b"http://localhost").partition(b"://")[2]
    return _is_loopback(host) and _is_loopback(origin)


def _is_loopback(named: bytes) -> bool:
    """Return whether a host, with or without a port, is localhost or a loopback address. Any other name may resolve to
    any address, even one without a dot, which the local network decides."""
    host = _without_port(named).decode("latin-1").lower()
    if host in LOOPBACK or host.removesuffix(".").endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _is_local_peer(scope: Scope) -> bool:
    """Return whether the peer is on this machine. A unix socket has no address and is always local."""
    client = scope.get("client")
    if not client or not client[0]:
        return True
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _without_port(name: bytes) -> bytes:
    host, _, port = name.rpartition(b":")
    return host if port.isdigit() else name
