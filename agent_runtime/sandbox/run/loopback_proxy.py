"""Runs inside a sandbox: forwards connections from the command's own loopback to the proxy's socket, then runs the
command.

`loopback_proxy.py SOCKET PORT ARGV...`. It listens before the command begins, and is not the command's child, because
programs wait for their children.
"""

from __future__ import annotations

import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio

LOOPBACK = "127.0.0.1"
READ_SIZE = 64 * 1024
MAX_CONNECTIONS = 256
"""Maximum simultaneous connections."""


def main() -> None:
    proxy = sys.argv[1]
    port = int(sys.argv[2])
    argv = sys.argv[3:]
    with socket.create_server((LOOPBACK, port), backlog=MAX_CONNECTIONS) as listener:
        between = os.fork()
        if between == 0:
            if os.fork() == 0:
                _detach()
                _run(listener, proxy)
            os._exit(0)
        os.waitpid(between, 0)
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except FileNotFoundError:
        os.write(2, f"{argv[0]}: there is no such program\n".encode())
        os._exit(127)


def _detach() -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # these are the command's, which may end before this process
        os.dup2(null, stream)


def _run(listener: socket.socket, proxy: str) -> None:
    import asyncio  # slow to import; the command does not wait for it

    asyncio.run(_serve(listener, proxy))


async def _serve(listener: socket.socket, proxy: str) -> None:
    import asyncio

    slots = asyncio.Semaphore(MAX_CONNECTIONS)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with slots:
            try:
                far_reader, far_writer = await asyncio.open_unix_connection(proxy)
            except OSError:
                writer.transport.abort()
                return
            await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
            writer.close()
            far_writer.close()

    server = await asyncio.start_server(carry, sock=listener)
    await server.serve_forever()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward one direction to its end. If one side fails, the other one is closed too."""
    try:
        while piece := await reader.read(READ_SIZE):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


main()
