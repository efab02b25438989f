"""Listening sockets."""

from __future__ import annotations

import socket


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
