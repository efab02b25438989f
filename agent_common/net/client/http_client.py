"""HTTP clients by URL: `http://host:port`, `https://host`, `http+unix://%2Fpath%2Fto.sock/v1` for a unix socket, and
`http+vsock://2:8420/v1` for a port of the machine outside a virtual one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

# If rich is installed, httpx also loads its command line, which takes 6 MiB and 25 ms and is not used here.
# A module entry of None prevents the import, and httpx works without it.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]


def http_client(url: str, **options: Any) -> tuple[httpx.AsyncClient, str]:
    """Return a client for this URL only, with keep-alive, and the base URL to use with it. The caller closes the
    client.

    Raises ValueError if `url` is not a base URL.
    """
    import httpx  # takes 50 ms, which would delay a cold start

    from .httpx_transport import HttpxTransport

    carrier = HttpxTransport(url)
    return httpx.AsyncClient(transport=carrier, trust_env=False, **options), carrier.base_url
