"""Streams in both directions, with a guest that keeps the rules."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from agent_host.fleet.vsock import packet
from agent_host.fleet.vsock.stream import STREAM_BUFFER_BYTES
from tests.unit.host.vsock.guest import CID, Guest

PORTS = (5000, 2048)


def listen(guest: Guest, port: int = 2048) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{guest.uds}_{port}")
    server.listen(512)
    server.settimeout(60)
    return server


@pytest.fixture
def host(guest: Guest) -> Iterator[socket.socket]:
    """A connection from the guest to the host's port, at the host's end."""
    with listen(guest) as server:
        guest.send(packet.REQUEST, PORTS)
        ((answer, _),) = guest.heard()
        assert (answer.op, answer.source_port, answer.target_port, answer.buf_alloc) == (
            packet.RESPONSE,
            2048,
            5000,
            STREAM_BUFFER_BYTES,
        )
        sock, _ = server.accept()
        sock.settimeout(60)
        with sock:
            yield sock


def dial(guest: Guest, line: bytes = b"CONNECT 9000\n") -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(60)
    sock.connect(guest.uds)
    sock.sendall(line)
    guest.turn()
    return sock


def test_what_the_guest_says_comes_out_at_the_socket_of_its_port(guest: Guest, host: socket.socket) -> None:
    guest.send(packet.RW, PORTS, b"hello")
    assert host.recv(100) == b"hello"
    host.sendall(b"good day")
    ((header, data),) = guest.heard()
    assert (header.op, header.source_cid, header.target_cid, data) == (packet.RW, 2, CID, b"good day")
    assert header.fwd_cnt == 5


def test_a_port_where_nobody_listens_is_refused(guest: Guest) -> None:
    guest.send(packet.REQUEST, (5000, 4242))
    assert [header.op for header, _ in guest.heard()] == [packet.RST]


def test_a_program_reaches_a_port_of_the_guest(guest: Guest) -> None:
    with dial(guest) as sock:
        ((asked, _),) = guest.heard()
        assert (asked.op, asked.target_port) == (packet.REQUEST, 9000)
        ports = (9000, asked.source_port)
        guest.send(packet.RESPONSE, ports)
        assert sock.recv(100) == b"OK %d\n" % asked.source_port
        guest.send(packet.RW, ports, b"x" * 100)
        assert sock.recv(200) == b"x" * 100
        sock.sendall(b"question")
        ((header, data),) = guest.heard()
        assert (data, header.fwd_cnt) == (b"question", 100)  # the line `OK` was ours and gives no credit


def test_a_closed_port_of_the_guest_is_the_end(guest: Guest) -> None:
    with dial(guest) as sock:
        ((asked, _),) = guest.heard()
        guest.send(packet.RST, (9000, asked.source_port))
        assert sock.recv(100) == b""


@pytest.mark.parametrize(
    "line", [b"CONNECT\n", b"CONNECT 99999999999\n", b"GET / HTTP/1.1\r\n", b"CONNECT 4294967296\n"]
)
def test_who_does_not_say_where_to_is_shown_out(guest: Guest, line: bytes) -> None:
    with dial(guest, line) as sock:
        assert ended(sock)


def ended(sock: socket.socket) -> bool:
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:  # it had not read all that was said
        return True


def test_a_greeting_may_come_in_pieces(guest: Guest) -> None:
    with dial(guest, b"CONN") as sock:
        assert guest.heard() == []
        sock.sendall(b"ECT 9000\nearly")
        guest.turn()
        ((asked, _),) = guest.heard()
        guest.send(packet.RESPONSE, (9000, asked.source_port))
        assert [data for _, data in guest.heard()] == [b"early"]


def test_the_host_sends_no_more_than_the_guest_has_room_for(guest: Guest, host: socket.socket) -> None:
    guest.send(packet.CREDIT_UPDATE, PORTS, room=1000)
    host.setblocking(False)
    host.send(b"z" * 50_000)
    assert sum(len(data) for _, data in guest.heard()) == 1000
    guest.send(packet.CREDIT_UPDATE, PORTS, room=1000, taken=600)
    assert sum(len(data) for _, data in guest.heard()) == 600


def test_the_guest_is_told_of_its_room_in_time(guest: Guest, host: socket.socket) -> None:
    sent = 0
    for _ in range(STREAM_BUFFER_BYTES // 4 // 4000 + 1):
        guest.send(packet.RW, PORTS, b"a" * 4000)
        sent += len(host.recv(4000))
    assert [(header.op, header.fwd_cnt) for header, _ in guest.heard()] == [(packet.CREDIT_UPDATE, sent)]


def test_a_slow_program_gets_all_of_it_and_then_the_end(guest: Guest, host: socket.socket) -> None:
    host.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    count = STREAM_BUFFER_BYTES // 4000
    for number in range(count):
        guest.send(packet.RW, PORTS, bytes([number % 256]) * 4000)
    guest.send(packet.SHUTDOWN, PORTS, flags=3)
    found = b""
    while part := _read(guest, host):
        found += part
    assert found == b"".join(bytes([number % 256]) * 4000 for number in range(count))
    assert guest.heard()[-1][0].op == packet.RST
    assert len(guest.backend.device.mux) == 0


def _read(guest: Guest, host: socket.socket) -> bytes:
    guest.turn()
    return host.recv(1 << 16)


def test_a_guest_that_ends_its_side_may_still_listen(guest: Guest, host: socket.socket) -> None:
    guest.send(packet.SHUTDOWN, PORTS, flags=packet.NO_MORE_SEND)
    assert host.recv(10) == b""
    host.sendall(b"late")
    assert [data for _, data in guest.heard()] == [b"late"]


def test_the_end_of_the_hosts_side_is_told_once(guest: Guest, host: socket.socket) -> None:
    host.sendall(b"bye")
    host.close()
    told = guest.heard()
    assert [header.op for header, _ in told] == [packet.RW, packet.SHUTDOWN]
    assert told[1][0].flags == 3
    guest.send(packet.RST, PORTS)
    assert len(guest.backend.device.mux) == 0


def test_nothing_is_lost_while_the_guest_offers_no_room(guest: Guest, host: socket.socket) -> None:
    body = bytes(range(256)) * 600  # more than the guest's 64 buffers of 4 KiB would hold with their headers twice
    guest.send(packet.CREDIT_UPDATE, PORTS, room=1 << 20)
    host.setblocking(False)
    found, at = b"", 0
    for number in range(200):
        if at < len(body):
            try:
                at += host.send(body[at : at + 20_000])
            except BlockingIOError:
                guest.turn()
        if number % 7 == 0:
            found += b"".join(data for _, data in guest.heard())
    while len(found) < len(body):
        found += b"".join(data for _, data in guest.heard())
    assert found == body


def test_a_reset_ends_all_streams_and_the_next_life_has_its_own(guest: Guest, host: socket.socket) -> None:
    guest.shut_down()
    guest.turn()
    assert host.recv(10) == b""
    guest.boot()
    guest.send(packet.REQUEST, (6000, 2048))
    assert [header.op for header, _ in guest.heard()] == [packet.RESPONSE]


def test_the_monitor_learns_the_context_id(guest: Guest) -> None:
    guest.say(24, struct_config())
    assert guest.answer()[12:] == CID.to_bytes(8, "little")


def struct_config() -> bytes:
    return (0).to_bytes(4, "little") + (8).to_bytes(4, "little") + bytes(4) + bytes(8)
