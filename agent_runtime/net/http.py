"""HTTP clients by URL.

`http://host:port`, `https://host`, and `http+unix://%2Fpath%2Fto.sock/v1` for a unix socket.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import httpx

# Where rich is installed, httpx would also load a command line of its own: 6 MiB and 25 ms for nothing.
# A module that is None cannot be imported, and httpx can do without this one.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

UNIX_SCHEME = "http+unix"


def http_client(url: str, **options: Any) -> tuple[httpx.AsyncClient, str]:
    """A client with keep-alive for this URL, and the base URL to use with it. The caller closes the client."""
    import httpx  # takes 50 ms, which a cold start does not have before its port is open

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30)
    parts = urlsplit(url)
    tls = parts.scheme == "https"  # without it there is no certificate to check, and none of the CAs need be loaded
    if parts.scheme != UNIX_SCHEME:
        return httpx.AsyncClient(limits=limits, verify=tls, trust_env=False, **options), url.rstrip("/")
    transport = httpx.AsyncHTTPTransport(uds=unquote(parts.netloc), limits=limits, verify=False)
    return httpx.AsyncClient(transport=transport, trust_env=False, **options), f"http://localhost{parts.path}".rstrip(
        "/"
    )
