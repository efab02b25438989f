"""Who is trusted to vouch for a host."""

from __future__ import annotations

import ssl
from functools import cache


@cache
def public_tls() -> ssl.SSLContext:
    """The public certificate authorities. Read once, because that takes 20 ms."""
    import certifi

    return ssl.create_default_context(cafile=certifi.where())
