"""Guests that break the rules: the backend neither crashes nor hangs nor grows, and the next life works."""

from __future__ import annotations

import socket
import struct
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_host.fleet.vsock import mux, packet
from agent_host.fleet.vsock.stream import STREAM_BUFFER_BYTES
from tests.unit.host.vsock.guest import CID, RECEIVE, RING, SIZE, TRANSMIT, USER, Guest
from tests.unit.host.vsock.test_streams import PORTS, listen


def works(guest: Guest) -> bool:
    """Whether a new life of the guest can speak with the host."""
    guest.shut_down()
    guest.boot()
    Path(f"{guest.uds}_7").unlink(missing_ok=True)
    with listen(guest, 7) as server:
        guest.send(packet.REQUEST, (6, 7))
        sock, _ = server.accept()
        guest.send(packet.RW, (6, 7), b"again")
        with sock:
            return sock.recv(9) == b"again" and guest.heard()[0][0].op == packet.RESPONSE


def held(guest: Guest) -> int:
    """Bytes that the backend keeps for streams."""
    return sum(len(stream.out_buffer) for stream in guest.backend.device.mux._streams.values())


@pytest.mark.parametrize(
    ("address", "length", "flags"),
    [
        (SIZE, 44, 0),
        (SIZE - 10, 44, 0),
        (1 << 63, 44, 0),
        (2**64 - 1, 44, 0),
        (0x80000, 0xFFFF_FFFF, 0),
        (0x80000, 44, 4),
        (0x80000, 44, 2),
    ],
)
def test_a_bad_descriptor_stops_the_device_until_its_reset(guest: Guest, address: int, length: int, flags: int) -> None:
    guest.describe(TRANSMIT, 0, address, length, flags)
    guest.offer(TRANSMIT, 0)
    guest.kick(TRANSMIT)
    assert any("rings are broken" in line for line in guest.said)
    guest.send(packet.REQUEST, PORTS)
    assert guest.heard() == []
    assert works(guest)


def test_a_chain_without_end_is_noticed(guest: Guest) -> None:
    guest.describe(TRANSMIT, 0, 0x80000, 8, 1, 1)
    guest.describe(TRANSMIT, 1, 0x80000, 8, 1, 0)
    guest.offer(TRANSMIT, 0)
    guest.kick(TRANSMIT)
    assert "no end" in guest.said[-1]
    assert works(guest)


@pytest.mark.parametrize("head", [RING, 0xFFFF])
def test_a_head_beyond_the_ring_is_noticed(guest: Guest, head: int) -> None:
    guest.offer(TRANSMIT, head)
    guest.kick(TRANSMIT)
    assert f"descriptor {head}" in guest.said[-1]
    assert works(guest)


def test_an_index_that_leaps_is_noticed(guest: Guest) -> None:
    struct.pack_into("<H", guest.memory, guest.queues[TRANSMIT].offered + 2, 5000)
    guest.kick(TRANSMIT)
    assert "chains in a ring" in guest.said[-1]
    assert works(guest)


@pytest.mark.parametrize("length", [0, 1, 43, 44])
def test_a_receive_buffer_without_room_is_noticed(guest: Guest, length: int) -> None:
    guest.shut_down()
    guest.boot()
    for slot in range(RING):
        guest.describe(RECEIVE, slot, 0x20000 + 4096 * slot, length, 2)
    with listen(guest) as server:
        guest.send(packet.REQUEST, PORTS)
        server.accept()[0].close()
        guest.turn()
    assert length == 44 or "rings are broken" in guest.said[-1]
    assert works(guest)


@pytest.mark.parametrize("length", [5, 1 << 16, 0xFFFF_FFFF])
def test_a_length_that_is_a_lie_ends_the_stream(guest: Guest, length: int) -> None:
    with listen(guest):
        guest.send(packet.REQUEST, PORTS)
        guest.heard()
        guest.send(packet.RW, PORTS, b"four", length=length)
        assert [header.op for header, _ in guest.heard()] == [packet.RST]
    assert len(guest.backend.device.mux) == 0
    assert works(guest)


def test_who_sends_more_than_he_may_is_cut_off(guest: Guest) -> None:
    with listen(guest) as server:
        guest.send(packet.REQUEST, PORTS)
        sock, _ = server.accept()
        with sock:
            most = 0
            for _ in range(3 * STREAM_BUFFER_BYTES // 4000):
                guest.send(packet.RW, PORTS, b"x" * 4000)
                most = max(most, held(guest))
    assert most <= STREAM_BUFFER_BYTES
    assert packet.RST in [header.op for header, _ in guest.heard()]


def test_refusals_wait_for_room_and_no_more_is_taken_meanwhile(guest: Guest) -> None:
    for number in range(3000):
        guest.send(packet.RW, (number, 9), kick=number % 8 == 0)
    device = guest.backend.device
    assert len(device.mux._refusals) <= mux.MOST_REFUSALS
    count = 0
    while found := guest.heard():
        assert {header.op for header, _ in found} == {packet.RST}
        count += len(found)
    assert 0 < count <= 3000
    assert works(guest)


def test_a_guest_has_so_many_streams_and_no_more(guest: Guest) -> None:
    with listen(guest) as server:
        for number in range(mux.MOST_FROM_GUEST + 20):
            guest.send(packet.REQUEST, (number, 2048))
            guest.heard()
        assert len(guest.backend.device.mux) == mux.MOST_FROM_GUEST
        with socket.socket(socket.AF_UNIX) as sock:  # the host's own way in stays open
            sock.connect(guest.uds)
            sock.sendall(b"CONNECT 1024\n")
            guest.turn()
            assert [header.op for header, _ in guest.heard()] == [packet.REQUEST]
        server.close()
    assert works(guest)


def test_opening_what_is_open_ends_it(guest: Guest) -> None:
    with listen(guest):
        guest.send(packet.REQUEST, PORTS)
        guest.heard()
        guest.send(packet.REQUEST, PORTS)
        assert [header.op for header, _ in guest.heard()] == [packet.RST]


@pytest.mark.parametrize(("kind", "target", "source"), [(2, 2, CID), (1, 5, CID), (1, 2, 77), (0xFFFF, 0, CID)])
def test_other_kinds_and_other_machines_get_nowhere(guest: Guest, kind: int, target: int, source: int) -> None:
    with listen(guest):
        guest.send(packet.REQUEST, PORTS, kind=kind, target=target, source=source)
        assert [header.op for header, _ in guest.heard()] == ([] if source == 77 else [packet.RST])
    assert len(guest.backend.device.mux) == 0


def test_memory_that_could_shrink_is_refused(guest: Guest) -> None:
    import os

    handle = os.memfd_create("loose")
    os.ftruncate(handle, SIZE)
    body = struct.pack("<IIQQQQ", 1, 0, 0, SIZE, USER, 0)
    guest.say(5, body, [handle])
    os.close(handle)
    assert "shrink" in guest.said[-1]


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (5, struct.pack("<II", 9, 0)),
        (5, struct.pack("<IIQQQQ", 1, 0, 0, SIZE * 2, USER, 0)),
        (8, struct.pack("<II", 3, 64)),
        (8, b""),
        (12, struct.pack("<Q", 200)),
        (9, b"\xff" * 40),
        (24, b"\xff" * 12),
    ],
)
def test_nonsense_of_the_monitor_is_the_end_of_the_machine(guest: Guest, request_: int, body: bytes) -> None:
    files = [guest.handle] if request_ == 5 else []
    assert not guest.backend.ended
    guest.say(request_, body, files)
    guest.monitor.close()
    guest.turn()
    assert "the monitor has disconnected" in guest.said[-1]
    assert guest.backend.ended


noise = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.integers(0, 3),
        st.sampled_from([2048, 9]),
        st.binary(max_size=200),
        st.one_of(st.none(), st.integers(0, 2**32 - 1)),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
        st.integers(0, 7),
    ),
    max_size=40,
)


@given(noise)
def test_no_packets_make_it_fall(packets: list) -> None:
    with tempfile.TemporaryDirectory(prefix="v") as folder, closing(Guest(Path(folder))) as guest:
        guest.boot()
        with listen(guest):
            for op, source, target, data, length, room, taken, flags in packets:
                guest.send(op, (source, target), data, length=length, room=room, taken=taken, flags=flags)
                guest.heard()
                assert held(guest) <= STREAM_BUFFER_BYTES * 4
        assert works(guest)


@given(st.lists(st.tuples(st.integers(0, 0x2_8000), st.binary(min_size=1, max_size=64)), max_size=30))
def test_no_memory_makes_it_fall(writes: list) -> None:
    """The guest's whole memory is the guest's, the rings too."""
    with tempfile.TemporaryDirectory(prefix="v") as folder, closing(Guest(Path(folder))) as guest:
        guest.boot()
        with listen(guest):
            guest.send(packet.REQUEST, PORTS)
            for at, data in writes:
                guest.memory[at : at + len(data)] = data
                began = time.monotonic()
                guest.kick(TRANSMIT)
                guest.kick(RECEIVE)
                assert time.monotonic() - began < 5
            assert works(guest)
