"""Addresses to listen on: `tcp://host:port`, `unix:/path`, `vsock://:port`. Port 0 means any free port."""

from __future__ import annotations

import errno
import socket

from agent_common.net import Endpoint, ListeningSocket, Tcp, Unix, listen_at, parse_endpoint

from ..errors import InvalidRequest, StartError

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  looked up, not bound
_PROBE_SECONDS = 0.15


def parse_address(text: str, field: str = "listen") -> Endpoint:
    """Parse an address. Raises InvalidRequest, naming `field`, if it is malformed."""
    try:
        return parse_endpoint(text, listening=True)
    except ValueError as error:
        raise InvalidRequest(f"{field}: {error}", faults=[(field, str(error))]) from error


def bind(endpoint: Endpoint, backlog: int = 1024, setting: str = "MESH_LISTENER_URL") -> ListeningSocket:
    """Listen on the address. Raises StartError, naming `setting`, if that fails."""
    try:
        listening = listen_at(endpoint, backlog=backlog)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = f"{setting}: {endpoint} is in use; stop what listens there or set another"
            raise StartError(text) from error
        raise StartError(f"{setting}: cannot listen on {error.strerror or error}") from error
    listening.sock.setblocking(False)
    return listening


def is_reachable(endpoint: Endpoint) -> bool:
    """Whether the address accepts connections. Connects and closes, like a supervisor's readiness probe."""
    if isinstance(endpoint, Tcp):
        family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        where: object = (_ANY.get(endpoint.host, endpoint.host), endpoint.port)
    elif isinstance(endpoint, Unix):
        family = socket.AF_UNIX
        where = endpoint.path
    else:
        return True  # unknown: not every machine can connect to its own vsock address
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(where)  # pyright: ignore[reportArgumentType]
        except OSError:
            return False
    return True
