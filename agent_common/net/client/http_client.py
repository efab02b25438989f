"""HTTP clients by URL: `http://host:port`, `https://host`, `http+unix://%2Fpath%2Fto.sock/v1` for a unix socket, and
`http+vsock://2:8420/v1` for a port of the machine outside a virtual one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

# Where rich is installed, httpx would also load a command line of its own: 6 MiB and 25 ms for nothing.
# A module that is None cannot be imported, and httpx can do without this one.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]


def http_client(url: str, **options: Any) -> tuple[httpx.AsyncClient, str]:
    """A client with keep-alive for this URL alone, and the base URL to use with it. The caller closes the client.

    Raises ValueError for what is no base URL.
    """
    import httpx  # takes 50 ms, which a cold start does not have before its port is open

    from .httpx_transport import HttpxTransport

    carrier = HttpxTransport(url)
    return httpx.AsyncClient(transport=carrier, trust_env=False, **options), carrier.base_url
