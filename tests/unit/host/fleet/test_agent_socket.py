"""The host connects to the socket that an agent has made, and to nothing that the agent puts in its place."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_host.fleet.agent_socket import connect_agent_socket


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """The folder of a socket that listens."""
    folder = tmp_path / "api"
    folder.mkdir()
    return folder


class Reader(asyncio.Protocol):
    """Keeps what has come until the end."""

    def __init__(self) -> None:
        self.received, self.ended = b"", asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


async def test_a_socket_is_connected_to(served: Path) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_unix_server(greet, str(served / "agent.sock")):
        protocol = await connect_agent_socket(served / "agent.sock", Reader)
        async with asyncio.timeout(60):
            await protocol.ended.wait()
    assert protocol.received == b"hello"


def _link_to_socket(api: Path, private: Path) -> None:
    (api / "agent.sock").symlink_to(private / "agent.sock")


def _link_to_folder(api: Path, private: Path) -> None:
    api.rmdir()
    api.symlink_to(private)


def _file(api: Path, _private: Path) -> None:
    (api / "agent.sock").touch()


def _nothing(_api: Path, _private: Path) -> None:
    return


@pytest.mark.parametrize("put", [_link_to_socket, _link_to_folder, _file, _nothing])
async def test_what_an_agent_puts_there_instead_is_refused(
    served: Path, tmp_path: Path, put: Callable[[Path, Path], None]
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(private / "agent.sock"))
        listening.listen()
        put(served, private)
        with pytest.raises(OSError, match=r"agent\.sock|api"):
            await connect_agent_socket(served / "agent.sock", asyncio.Protocol)
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
