"""Each fault of the bridge, on demand, as both ends see it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from agent_testing import BridgeFaults, FakeBridge, Trip
from tests.ports import free_port
from tests.unit.testing.ends import TCP, Guest, Host, ends, full, joined, unix


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Guest, Host]]:
    async with ends() as both:
        yield both


# ---------------------------------------------------------------- breaks


@pytest.mark.parametrize("how", ["rst", "fin"])
async def test_one_connection_breaks_and_the_others_live(pair: tuple[Guest, Host], how: Literal["rst", "fin"]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        other, _ = await joined(guest, host, bridge)
        assert bridge.cut(bridge.links[0], how=how) == 1
        assert bridge.cut(bridge.links[0], how=how) == 0  # once is enough
        assert (await inner.end(), await outer.end()) == ((b"", how), (b"", how))
        assert await other.silent()
        assert (await bridge.until(lambda counts: counts.open == 1)).breaks == 1


async def test_all_break_at_once_those_that_still_dial_too(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner = [await guest.dial(bridge.url) for _ in range(5)]
        await bridge.until(lambda counts: counts.open == 5)
        assert bridge.cut() == 5
        assert [await peer.end() for peer in inner] == [(b"", "rst")] * 5
        assert bridge.listening
        assert await (await guest.dial(bridge.url)).silent()


@pytest.mark.parametrize("fault", ["cut", "snapshot"])
async def test_what_still_dials_can_be_broken(pair: tuple[Guest, Host], fault: str) -> None:
    with full() as target:
        async with FakeBridge(TCP, target) as bridge:
            inner = await pair[0].dial(bridge.url)
            await bridge.until(lambda counts: counts.open == 1)
            assert (bridge.cut() if fault == "cut" else bridge.snapshot()) == 1
            assert await inner.end() == (b"", "rst")
            await bridge.until(lambda counts: counts.open == 0)


@pytest.mark.parametrize("how", ["rst", "fin"])
@pytest.mark.parametrize("direction", ["to_host", "to_guest"])
async def test_a_frame_is_cut_after_so_many_bytes(
    pair: tuple[Guest, Host], how: Literal["rst", "fin"], direction: Literal["to_host", "to_guest"]
) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        bridge.trip(direction, Trip(how, after=12))  # nobody is there: meant for the next
        inner, outer = await joined(guest, host, bridge)
        writer, reader = (inner, outer) if direction == "to_host" else (outer, inner)
        await writer.send(b"0123456")
        assert await reader.exactly(7) == b"0123456"
        await writer.send(b"789\xc3\xa4 and more\n")
        assert await reader.end() == (b"789\xc3\xa4", how)
        assert (await bridge.until(lambda counts: counts.open == 0)).breaks == 1
        inner, outer = await joined(guest, host, bridge)  # only the next
        await inner.send(b"x" * 20)
        assert await outer.exactly(20) == b"x" * 20


async def test_nothing_passes_when_the_first_byte_is_one_too_many(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        bridge.trip("to_host", Trip("fin", after=0))
        assert await outer.silent()
        await inner.send(b"lost")
        assert await outer.end() == (b"", "fin")


async def test_it_breaks_before_a_text_even_one_that_comes_in_pieces(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        bridge.cut()
        bridge.trip("to_host", Trip("fin", mark=b'"status"'))  # that one is as good as gone: meant for the next
        inner, outer = await joined(guest, host, bridge)
        await inner.send(b'{"signal": "accepting"}\n{"id": 1, "status": "completed"}\n')
        assert await outer.end() == (b'{"signal": "accepting"}\n{"id": 1, ', "fin")
        inner, outer = await joined(guest, host, bridge)
        bridge.trip("to_host", Trip("fin", mark=b'"status"'))
        await inner.send(b'{"stat": 0, "sta')
        assert await outer.exactly(16) == b'{"stat": 0, "sta'
        await inner.send(b'tus": 1}\n')
        assert await outer.end() == (b"", "fin")


async def test_a_wire_may_stall_instead(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        bridge.trip("to_host", Trip("stall", after=3))
        await inner.send(b"abcdef")
        assert await outer.exactly(3) == b"abc"
        assert await outer.silent()
        bridge.release()
        assert await outer.exactly(3) == b"def"
        assert bridge.counts.breaks == 0


# ---------------------------------------------------------------- stalls


@pytest.mark.parametrize("direction", ["to_host", "to_guest"])
async def test_a_stall_holds_bytes_and_the_end_and_loses_none(
    pair: tuple[Guest, Host], direction: Literal["to_host", "to_guest"]
) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        bridge.stall(direction)  # before the connection is there
        inner, outer = await joined(guest, host, bridge)
        writer, reader = (inner, outer) if direction == "to_host" else (outer, inner)
        await writer.send(b"held")
        writer.close()
        assert await reader.silent()
        await reader.send(b"the other way goes on") if direction == "to_host" else None
        bridge.release(direction)
        assert await reader.end() == (b"held", "fin")


async def test_one_connection_stalls_and_the_others_do_not(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        slow, slow_host = await joined(guest, host, bridge)
        fast, fast_host = await joined(guest, host, bridge)
        bridge.stall("both", bridge.links[0])
        await slow.send(b"slow")
        await fast.send(b"fast")
        assert await fast_host.exactly(4) == b"fast"
        assert await slow_host.silent()
        assert bridge.cut(bridge.links[0]) == 1  # what stalls can be broken
        assert (await slow.end())[1] == "rst"


# ---------------------------------------------------------------- ends


async def test_one_direction_ends_and_the_other_goes_on(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        bridge.half_close("to_guest")  # what the true bridge never does
        assert await inner.end() == (b"", "fin")
        await inner.send(b"still here")
        assert await outer.exactly(10) == b"still here"
        bridge.half_close("to_host")
        assert await outer.end() == (b"", "fin")
        await bridge.until(lambda counts: counts.open == 0)
        inner, outer = await joined(guest, host, bridge)
        bridge.half_close("to_host")
        assert await outer.end() == (b"", "fin")
        await outer.send(b"answer")
        assert await inner.exactly(6) == b"answer"


async def test_a_guest_is_back_before_the_host_hears_that_it_was_gone(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        await inner.send(b"first")
        assert await outer.exactly(5) == b"first"
        old = bridge.reorder()
        assert await inner.end() == (b"", "rst")
        back, renewed = await joined(guest, host, bridge)
        await back.send(b"second")
        assert await renewed.exactly(6) == b"second"
        assert await outer.silent()
        assert bridge.counts.open == 2
        bridge.release_eof(link=old[0])
        assert await outer.end() == (b"", "fin")
        outer.close()
        await bridge.until(lambda counts: counts.open == 1)
        assert await back.silent()


async def test_a_snapshot_resets_the_guest_and_the_host_sees_half_an_end(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        links = [await joined(guest, host, bridge) for _ in range(3)]
        assert bridge.snapshot() == 3
        for inner, outer in links:
            assert await inner.end() == (b"", "rst")
            assert await outer.end() == (b"", "fin")
        again, renewed = await joined(guest, host, bridge)  # the listening socket lived
        await again.send(b"x")
        assert await renewed.exactly(1) == b"x"
        assert bridge.counts.open == 4  # the host has not closed its ends
        await links[0][1].send(b"speaks to nobody")
        links[1][1].close()
        await bridge.until(lambda counts: counts.open == 2)


# ---------------------------------------------------------------- doors


@pytest.mark.parametrize("listen", ["tcp", "unix"])
async def test_nobody_listens_and_what_stands_goes_on(pair: tuple[Guest, Host], tmp_path: Path, listen: str) -> None:
    guest, host = pair
    async with FakeBridge(unix(tmp_path) if listen == "unix" else TCP, host.url) as bridge:
        url = bridge.url
        inner, outer = await joined(guest, host, bridge)
        bridge.refuse()
        bridge.refuse()
        with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
            await guest.dial(url)
        await inner.send(b"on")
        assert await outer.exactly(2) == b"on"
        bridge.restore()
        assert bridge.url == url
        await joined(guest, host, bridge)


async def test_a_severed_bridge_is_gone_until_it_is_restored(pair: tuple[Guest, Host], tmp_path: Path) -> None:
    guest, host = pair
    async with FakeBridge(unix(tmp_path), host.url) as bridge:
        _, outer = await joined(guest, host, bridge)
        bridge.sever()
        assert (await outer.end())[1] == "rst"
        assert not (tmp_path / "guest.sock").exists()
        with pytest.raises(FileNotFoundError):
            await guest.dial(bridge.url)
        assert not bridge.listening
        bridge.restore()
        await joined(guest, host, bridge)


async def test_a_host_that_is_down_is_not_even_dialled(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        bridge.host_is_down = True
        assert await (await guest.dial(bridge.url)).end() == (b"", "fin")
        assert bridge.counts.failed_dials == 1
        bridge.host_is_down = False
        await joined(guest, host, bridge)


async def test_it_flaps_for_a_time(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        flapping = asyncio.create_task(bridge.flap(every=0.05, seconds=0.2))
        broken = 0
        while not flapping.done():
            inner = await guest.dial(bridge.url)
            if flapping.done():
                break
            await asyncio.wait({flapping, ended := asyncio.create_task(inner.end())}, return_when="FIRST_COMPLETED")
            if ended.done():
                assert ended.result()[1] == "rst"
                broken += 1
            else:
                ended.cancel()
        assert await flapping == bridge.counts.breaks >= 1
        assert await (await guest.dial(bridge.url)).silent()


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_flood_of_probes_reaches_the_host(pair: tuple[Guest, Host], how: Literal["fin", "rst"]) -> None:
    guest, host = pair
    async with FakeBridge(TCP, host.url) as bridge:
        inner, outer = await joined(guest, host, bridge)
        assert await bridge.flood(200, rate=1e6, how=how) == 200
        assert bridge.counts.probes == 200
        for _ in range(200):
            assert (await (await host.accept()).end())[0] == b""
        await inner.send(b"still alive")
        assert await outer.exactly(11) == b"still alive"


async def test_a_flood_keeps_to_its_rate_and_bears_refusals() -> None:
    loop = asyncio.get_running_loop()
    async with FakeBridge(TCP, f"tcp://127.0.0.1:{free_port()}") as bridge:
        begun = loop.time()
        assert await bridge.flood(3, rate=20) == 0
        assert loop.time() - begun >= 0.1
        assert bridge.counts.probes == 3


async def test_waiting_on_counts_has_a_deadline_and_shows_them() -> None:
    async with FakeBridge(TCP, f"tcp://127.0.0.1:{free_port()}") as bridge:
        with pytest.raises(TimeoutError, match="accepted=0"):
            await bridge.until(lambda counts: counts.accepted == 1, 0.01)


async def test_nothing_is_lost_or_changed_while_nothing_breaks(pair: tuple[Guest, Host]) -> None:
    guest, host = pair
    plan = BridgeFaults(seed=1, stalls_per_minute=60_000.0, longest_stall=0.002)
    async with FakeBridge(TCP, host.url, faults=plan) as bridge:
        inner, outer = await joined(guest, host, bridge)
        there, back = os.urandom(400_000), os.urandom(400_000)
        sent = [asyncio.create_task(inner.send(there)), asyncio.create_task(outer.send(back))]
        assert await asyncio.gather(outer.exactly(len(there)), inner.exactly(len(back))) == [there, back]
        await asyncio.gather(*sent)
        assert bridge.history
