"""Transports by URL: the same call works over TCP and over a unix socket."""

from .http import http_client
from .listen import serve_socket

__all__ = ["http_client", "serve_socket"]
