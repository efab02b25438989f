"""A port that a test names itself: for a server that has to come back where it was, or for nobody to listen on."""

from __future__ import annotations

import random
import socket

_PORTS = range(20_000, 30_000)
"""Below those that the kernel hands out, so that no test beside this one is given the port meanwhile."""
_TRIES = 100


def free_port() -> int:
    """A port of the loopback that nobody listens on. Two workers that ask at once are most unlikely to get the same."""
    for port in random.sample(_PORTS, _TRIES):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"none of {_TRIES} ports is free")
