"""Whether the server's process answers: exit code 0 or 1. Says nothing of channel or model, and needs no token.

`agent-healthz [PREFIX PORT]`: the prefix of its settings, and its port unless they name another.
"""

import os
import socket
import sys

ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  read, not listened on
SECONDS = 2.0


def alive(host: str, port: int) -> bool:
    """One request, by hand: to load an HTTP client takes longer than the answer."""
    with socket.create_connection((ANYWHERE.get(host, host), port), SECONDS) as line:
        line.settimeout(SECONDS)
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return line.recv(64).startswith(b"HTTP/1.1 200")


if __name__ == "__main__":
    prefix, port = sys.argv[1:] or ("AGENT", "8400")
    try:
        good = alive(os.environ.get(f"{prefix}_HOST") or "127.0.0.1", int(os.environ.get(f"{prefix}_PORT") or port))
    except (OSError, ValueError) as error:
        print(f"agent-healthz: {error}", file=sys.stderr)
        good = False
    sys.exit(0 if good else 1)
