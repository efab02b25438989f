"""Transports by URL: the same call works over TCP and over a unix socket."""

from typing import TYPE_CHECKING, Any

from .http import http_client
from .listen import serve_socket

if TYPE_CHECKING:
    from .pool import HttpPool, Reply, TransportFault

__all__ = ["HttpPool", "Reply", "TransportFault", "http_client", "serve_socket"]


def __getattr__(name: str) -> Any:
    """The client side waits until somebody calls out: a cold start needs only the listening socket."""
    if name not in ("HttpPool", "Reply", "TransportFault"):
        raise AttributeError(name)
    from . import pool

    return getattr(pool, name)
