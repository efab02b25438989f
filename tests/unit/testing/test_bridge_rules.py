"""The bridge without faults does what the supervisor does."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from agent_testing import FakeBridge
from tests.ports import free_port
from tests.unit.testing.ends import TCP, Guest, Host, Peer, ends, full, joined, unix


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Guest, Host]]:
    async with ends() as both:
        yield both


@pytest.mark.parametrize("listen", ["tcp", "unix"])
async def test_bytes_pass_both_ways_without_a_header(pair: tuple[Guest, Host], tmp_path: Path, listen: str) -> None:
    guest, host = pair
    async with FakeBridge(unix(tmp_path) if listen == "unix" else TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        assert await outer.silent()
        data = os.urandom(300_000)
        sending = asyncio.create_task(inner.send(data))
        assert await outer.exactly(len(data)) == data
        await sending
        await outer.send(b"back")
        assert await inner.exactly(4) == b"back"
        counts = await bridge.until(lambda counts: counts.to_guest == 4)
        assert (counts.accepted, counts.open, counts.to_host) == (1, 1, 300_000)
    assert (await inner.end(), await outer.end()) == ((b"", "fin"), (b"", "fin"))


async def test_a_guest_is_accepted_before_the_host_is_dialled(pair: tuple[Guest, Host]) -> None:
    guest, _ = pair
    async with FakeBridge(TCP, f"tcp://127.0.0.1:{free_port()}") as bridge:
        inner = await guest.dial(bridge.url)  # succeeds, and proves nothing
        assert await inner.end() == (b"", "fin")
        counts = await bridge.until(lambda counts: counts.open == 0)
        assert (counts.accepted, counts.failed_dials) == (1, 1)


async def test_a_dial_has_no_deadline_and_ends_with_the_bridge(pair: tuple[Guest, Host]) -> None:
    guest, _ = pair
    with full() as target:
        async with FakeBridge(TCP, target) as bridge:
            inner = await guest.dial(bridge.url)
            await bridge.until(lambda counts: counts.open == 1)
            assert await inner.silent()
        assert await inner.end() == (b"", "fin")


async def test_the_end_of_the_host_takes_both_directions_down(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        await outer.send(b"last words")
        outer.shut()  # only half a close, as the host sees it
        assert await inner.end() == (b"last words", "fin")
        assert await outer.end() == (b"", "fin")
        await bridge.until(lambda counts: counts.open == 0)
        with pytest.raises(OSError, match=r"(?i)reset|broken pipe"):
            await inner.send_without_end(b"nobody reads this")


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_the_end_of_the_guest_is_half_a_close(pair: tuple[Guest, Host], how: str) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        await inner.send(b"bye")
        assert await outer.exactly(3) == b"bye"
        inner.close() if how == "close" else inner.reset()
        assert await outer.end() == (b"", "fin")
        assert bridge.counts.open == 1
        outer.close()
        await bridge.until(lambda counts: counts.open == 0)


async def test_the_host_may_go_on_after_the_guest_has_shut_its_side(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        inner.shut()
        assert await outer.end() == (b"", "fin")
        await outer.send(b"late answer")
        assert await inner.exactly(11) == b"late answer"
        assert bridge.counts.open == 1


async def test_what_cannot_be_written_to_the_guest_ends_the_host_too(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        inner.reset()
        assert await outer.end() == (b"", "fin")
        await outer.send(b"to nobody")
        await bridge.until(lambda counts: counts.open == 0)


async def test_more_than_128_connections_are_closed_at_once(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner = [await guest.dial(bridge.url) for _ in range(128)]
        outer = [await host.accept() for _ in range(128)]
        for _ in range(10):
            assert await (await guest.dial(bridge.url)).end() == (b"", "fin")
        counts = bridge.counts
        assert (counts.accepted, counts.refused, counts.open) == (138, 10, 128)
        await inner[127].send(b"x")
        outer[0].close()
        await bridge.until(lambda counts: counts.open == 127)
        again, _ = await joined(guest, host, bridge)
        assert await again.silent()
        assert bridge.counts.refused == 10


async def test_a_fast_writer_waits_for_a_slow_reader_and_memory_stays_flat(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        bridge.stall("to_host")
        block, pushed, process = b"x" * (1 << 20), 0, psutil.Process()
        before = process.memory_info().rss
        for _ in range(20):
            try:
                while True:
                    pushed += inner.sock.send(block)
            except BlockingIOError:
                await asyncio.sleep(0.01)
        assert await outer.silent()
        assert bridge.counts.to_host == 0
        assert pushed < 32 << 20  # what the kernel holds; the writer is held up
        assert process.memory_info().rss - before < 8 << 20
        bridge.release("to_host")
        assert len(await outer.exactly(pushed)) == pushed  # held, not lost


async def test_a_bridge_leaves_nothing_behind(pair: tuple[Guest, Host], tmp_path: Path) -> None:
    guest, host = pair
    tasks, path = asyncio.all_tasks(), tmp_path / "guest.sock"
    descriptors = psutil.Process().num_fds()
    async with FakeBridge(unix(tmp_path), host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        late = await guest.dial(bridge.url)  # may not even have been accepted when it closes
        bridge.stall()
        assert path.is_socket()
    assert not path.exists()
    assert asyncio.all_tasks() == tasks
    for peer in (inner, outer, late):
        peer.close()
    assert psutil.Process().num_fds() == descriptors


async def test_a_socket_of_a_dead_bridge_is_replaced_and_any_other_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "guest.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
        with pytest.raises(OSError, match=r"listens there already|not a socket"):
            await FakeBridge(f"unix:{path}", "tcp://127.0.0.1:9").__aenter__()
    async with FakeBridge(f"unix:{path}", "tcp://127.0.0.1:9") as bridge:
        assert bridge.listening
        path.unlink()
        path.write_text("somebody else's")
    assert path.read_text() == "somebody else's"
    with pytest.raises(OSError, match=r"listens there already|not a socket"):
        await FakeBridge(f"unix:{path}", "tcp://127.0.0.1:9").__aenter__()


async def test_without_descriptors_a_guest_waits_until_there_are_some(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with FakeBridge(TCP, host.url) as bridge:
        with socket.socket() as waiting:
            waiting.setblocking(False)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                waiting.connect_ex(("127.0.0.1", int(bridge.url.rpartition(":")[2])))
                assert await Peer(waiting).silent()
                assert bridge.counts.accepted == 0
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await bridge.until(lambda counts: counts.open == 1)
        bridge.refuse()
        bridge.restore()
        await joined(guest, host, bridge)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "unix:relative",
        "unix://host/path",
        "tcp://127.0.0.1",
        "tcp://:1",
        "tcp://h:99999",
        "http://h:1",
        "vsock://x:1",
        "vsock://4294967295:1",
    ],
)
def test_a_wrong_address_says_what_to_write(address: str) -> None:
    with pytest.raises(ValueError, match=r"listen .*must"):
        FakeBridge(address, "tcp://127.0.0.1:9")


def test_a_path_that_no_socket_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"listen .*107 bytes"):
        FakeBridge(f"unix:/{'x' * 107}", "tcp://127.0.0.1:9")


@pytest.mark.skipif(not hasattr(socket, "AF_VSOCK"), reason="no vsock here")
async def test_it_listens_on_vsock_where_there_is_one(pair: tuple[Guest, Host]) -> None:
    bridge = FakeBridge("vsock://:51234", pair[1].url)
    try:
        await bridge.__aenter__()
    except OSError as error:
        pytest.skip(f"the kernel has no vsock: {error}")
    assert bridge.url == "vsock://:51234"
    await bridge.__aexit__(None, None, None)


async def test_a_host_that_comes_later_gets_the_next_connection(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, f"tcp://127.0.0.1:{free_port()}") as bridge:
        assert await (await guest.dial(bridge.url)).end() == (b"", "fin")
        bridge.target = host.url
        inner, outer = await joined(guest, host, bridge)
        await inner.send(b"ready")
        assert await outer.exactly(5) == b"ready"
