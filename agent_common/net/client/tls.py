"""The certificate authorities that TLS connections trust."""

from __future__ import annotations

import ssl
from functools import cache


@cache
def public_tls() -> ssl.SSLContext:
    """Return a context with the public certificate authorities. Cached, because reading them takes 20 ms."""
    import certifi

    return ssl.create_default_context(cafile=certifi.where())
