"""Listening sockets."""

from __future__ import annotations

import socket

STALL_MS = 60_000
"""How long sent bytes may go without an acknowledgement, or meet a peer who takes none, before a connection is dead."""


def serve_socket(host: str, port: int) -> socket.socket:
    """A bound TCP socket. Raises OSError, for example when the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALL_MS)  # accepted sockets take it over
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
