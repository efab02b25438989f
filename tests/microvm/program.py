"""Runs in the guest for the test of vsock: speaks with the host over vsock in both directions."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable

MEBIBYTE = 1 << 20


def serve(port: int, handle: Callable[[socket.socket], None]) -> None:
    server = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    server.bind((0xFFFFFFFF, port))
    server.listen(64)
    while True:
        client, _ = server.accept()
        threading.Thread(target=handle, args=(client,), daemon=True).start()


def echo(client: socket.socket) -> None:
    with client:
        while data := client.recv(1 << 16):
            client.sendall(data)


def take(client: socket.socket) -> None:
    """Swallows a mebibyte after the other and tells how many bytes it has had, once it has had eight."""
    count = 0
    with client:
        while data := client.recv(1 << 16):
            count += len(data)
            if count >= 8 * MEBIBYTE:
                client.sendall(b"%d\n" % count)
                return


def give(client: socket.socket) -> None:
    with client:
        for _ in range(8):
            client.sendall(bytes(range(256)) * (MEBIBYTE // 256))


def main() -> None:
    for port, handle in ((9000, echo), (9001, take), (9002, give)):
        threading.Thread(target=serve, args=(port, handle), daemon=True).start()
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as host, host.makefile("rwb") as lines:
        host.connect((2, 2048))
        told = {"uid": os.getuid(), "cards": os.listdir("/sys/class/net"), "uptime": time.monotonic()}
        lines.write(json.dumps(told).encode() + b"\n")
        lines.flush()
        for line in lines:
            lines.write(line)
            lines.flush()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
