"""Sockets that listen, connections to them, and files that are left behind."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvloop

from agent_common.net import Endpoint, ListeningSocket, Tcp, Unix, Vsock, listen_at, open_endpoint
from agent_common.net.endpoints.connect import as_unix_socket, connect_socket

ANY = 0xFFFFFFFF
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
CRASHING = """
import os, signal, sys
from agent_common.net import listen_at, parse_endpoint
listen_at(parse_endpoint(sys.argv[1], listening=True))
os.kill(os.getpid(), signal.SIGKILL)
"""


def run(loop: str, work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(work)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def there_and_back(listening: ListeningSocket, endpoint: Endpoint) -> None:
    start = asyncio.start_unix_server if listening.sock.family == socket.AF_UNIX else asyncio.start_server
    sent = os.urandom(1_000_000)
    with listening:
        async with await start(echo, sock=listening.sock):
            reader, writer = await open_endpoint(endpoint, 5)
            writer.write(sent)
            writer.write_eof()
            async with asyncio.timeout(60):
                assert await reader.read(-1) == sent
            writer.close()


def vsock_loopback() -> ListeningSocket:
    """Listens on this machine's own context id, where it has one."""
    try:
        return listen_at(Vsock(1, ANY))
    except OSError as error:
        pytest.skip(f"needs AF_VSOCK and the kernel's module vsock_loopback ({error.strerror})")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", ["tcp", "unix", "vsock"])
def test_bytes_go_there_and_back(tmp_path: Path, loop: str, kind: str) -> None:
    if kind == "vsock":
        listening = vsock_loopback()
    else:
        listening = listen_at(Tcp("127.0.0.1", 0) if kind == "tcp" else Unix(f"{tmp_path}/s"))
    run(loop, there_and_back(listening, listening.endpoint))


@pytest.mark.parametrize("loop", LOOPS)
def test_sockets_under_another_name_carry_bytes(loop: str) -> None:
    """Vsock goes by the name of AF_UNIX through the event loops; here TCP does, which every machine has."""
    listening = listen_at(Tcp("127.0.0.1", 0))
    where = listening.sock.getsockname()

    async def main() -> None:
        with as_unix_socket(listening.sock) as bound:
            async with await asyncio.start_unix_server(echo, sock=bound):
                near = as_unix_socket(socket.create_connection(where))
                reader, writer = await asyncio.open_unix_connection(sock=near)
                writer.write(b"x" * 1_000_000)
                writer.write_eof()
                async with asyncio.timeout(60):
                    assert len(await reader.read(-1)) == 1_000_000
                writer.close()

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_takes_its_time_is_waited_for(loop: str) -> None:
    """As over vsock: the kernel says that it is in progress, and later what became of it."""

    def unconnected() -> socket.socket:
        opened = socket.socket()
        opened.setblocking(False)
        return opened

    async def main() -> None:
        async with asyncio.timeout(60):
            with listen_at(Tcp("127.0.0.1", 0)) as listening:
                where = listening.sock.getsockname()
                async with await asyncio.start_server(echo, sock=listening.sock):
                    reader, writer = await asyncio.open_unix_connection(sock=await connect_socket(unconnected(), where))
                    writer.write(b"hello")
                    writer.write_eof()
                    assert await reader.read(-1) == b"hello"
                    writer.close()
            with pytest.raises(ConnectionRefusedError):
                await connect_socket(unconnected(), where)

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_port_over_vsock_is_listened_on(loop: str) -> None:
    try:
        listening = listen_at(Vsock(ANY, ANY))
    except OSError as error:
        pytest.skip(f"needs AF_VSOCK ({error.strerror})")
    assert isinstance(listening.endpoint, Vsock)
    assert 1023 < listening.endpoint.port < ANY

    async def main() -> None:
        async with await asyncio.start_unix_server(echo, sock=listening.sock):
            with pytest.raises(OSError, match=r"vsock://:\d+: something listens there already"):
                listen_at(listening.endpoint)

    with listening:
        run(loop, main())
    with listen_at(listening.endpoint):
        pass


async def test_who_cannot_be_reached_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with pytest.raises(OSError, match=f"unix:{path}: there is no such socket; is the host up"):
        await open_endpoint(Unix(str(path)))
    with listen_at(Unix(str(path))) as listening:
        listening.sock.close()
        with pytest.raises(OSError, match=f"unix:{path}: nothing listens there"):
            await open_endpoint(Unix(str(path)))
    path.write_text("a file")
    with pytest.raises(OSError, match=f"unix:{path}: nothing listens there"):
        await open_endpoint(Unix(str(path)))


async def test_a_full_queue_is_waited_for_and_not_for_ever(tmp_path: Path) -> None:
    with listen_at(Unix(f"{tmp_path}/s"), backlog=0) as listening:
        waiting = [await open_endpoint(listening.endpoint, 5)]
        with pytest.raises(TimeoutError):
            await open_endpoint(listening.endpoint, 0.2)
        late = asyncio.create_task(open_endpoint(listening.endpoint, 10))
        async with await asyncio.start_unix_server(echo, sock=listening.sock):
            waiting.append(await late)
            for reader, writer in waiting:
                writer.write(b"x")
                assert await reader.read(1) == b"x"
                writer.write_eof()
                assert await reader.read() == b""
                writer.close()


def test_a_socket_is_for_its_user_and_group_and_its_file_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen_at(Unix(str(path))) as listening:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        with listen_at(Unix(f"{path}2"), mode=0o600):
            assert stat.S_IMODE(Path(f"{path}2").stat().st_mode) == 0o600
        listening.close()
        assert not path.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_live_owner_is_not_displaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for backlog in (0, 5):
        with listen_at(Unix(str(path)), backlog=backlog), socket.socket(socket.AF_UNIX) as near:
            near.connect(str(path))
            with pytest.raises(OSError, match=f"unix:{path}: something listens there already"):
                listen_at(Unix(str(path)))
            assert path.is_socket()


def test_a_dead_owner_is(tmp_path: Path) -> None:
    path = tmp_path / "s"
    died = subprocess.run([sys.executable, "-c", CRASHING, f"unix:{path}"], check=False, cwd=Path(__file__).parents[3])
    assert died.returncode == -9
    assert path.is_socket()
    with listen_at(Unix(str(path))), socket.socket(socket.AF_UNIX) as near:
        near.connect(str(path))


def test_of_many_who_find_a_dead_owner_one_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for _ in range(5):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))

        def attempt(_: int) -> ListeningSocket | None:
            try:
                return listen_at(Unix(str(path)))
            except OSError:
                return None

        with ThreadPoolExecutor(8) as pool:
            [winner] = [one for one in pool.map(attempt, range(8)) if one is not None]
        with winner, socket.socket(socket.AF_UNIX) as near:
            near.connect(str(path))
            winner.sock.accept()[0].close()


def test_what_is_no_socket_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    kept.chmod(0o600)
    (tmp_path / "link").symlink_to(kept)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    for name in ("kept", "link", "dangling", "folder"):
        with pytest.raises(OSError, match="the file is not a socket"):
            listen_at(Unix(f"{tmp_path}/{name}"))
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == ("mine", 0o600)
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(OSError, match=r"there is no folder .*; make it first"):
        listen_at(Unix(f"{tmp_path}/none/s"))


def test_the_file_of_a_successor_stays(tmp_path: Path) -> None:
    path = tmp_path / "s"
    first = listen_at(Unix(str(path)))
    path.unlink()  # somebody tidies up
    with listen_at(Unix(str(path))):
        first.close()
        assert path.is_socket()
    assert not path.exists()
