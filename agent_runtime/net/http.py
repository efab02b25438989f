"""HTTP clients and listening sockets by URL.

`http://host:port`, `https://host`, and `http+unix://%2Fpath%2Fto.sock/v1` for a unix socket.
"""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

UNIX_SCHEME = "http+unix"


def http_client(url: str, **options: Any) -> tuple[httpx.AsyncClient, str]:
    """A client with keep-alive for this URL, and the base URL to use with it. The caller closes the client."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30)
    parts = urlsplit(url)
    if parts.scheme != UNIX_SCHEME:
        return httpx.AsyncClient(limits=limits, trust_env=False, **options), url.rstrip("/")
    transport = httpx.AsyncHTTPTransport(uds=unquote(parts.netloc), limits=limits)
    return httpx.AsyncClient(transport=transport, trust_env=False, **options), f"http://localhost{parts.path}".rstrip(
        "/"
    )


def serve_socket(host: str, port: int) -> socket.socket:
    """A bound TCP socket. Raises OSError, for example when the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
