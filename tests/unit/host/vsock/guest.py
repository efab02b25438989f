"""A guest that is not there: memory, rings and a monitor's socket, all in the hand of a test."""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from agent_host.fleet.vsock.packet import HEADER, Header, parse
from agent_host.fleet.vsock.serve import Backend, bind

CID = 3
SIZE = 1 << 21
RING = 64
PIECE = 4096
USER = 0x7F00_0000_0000
"""Where the monitor says that it sees the memory."""
RECEIVE, TRANSMIT, EVENT = 0, 1, 2
_RING_SPACE = 0x4000
_BUFFERS = {RECEIVE: 0x2_0000, TRANSMIT: 0x8_0000}


@dataclass
class Queue:
    number: int
    available: int = 0
    used: int = 0

    @property
    def base(self) -> int:
        return self.number * _RING_SPACE

    @property
    def descriptors(self) -> int:
        return self.base

    @property
    def offered(self) -> int:
        return self.base + 0x1000

    @property
    def returned(self) -> int:
        return self.base + 0x2000


class Guest:
    """`turn` lets the backend work; nothing happens by itself."""

    def __init__(self, folder: Path) -> None:
        self.uds = str(folder / "v.sock")
        self.said: list[str] = []
        self.backend = Backend(bind(str(folder / "m.sock")), bind(self.uds), CID, self.uds, self.said.append)
        self.monitor = socket.socket(socket.AF_UNIX)
        self.monitor.connect(str(folder / "m.sock"))
        self.handle = os.memfd_create("guest", os.MFD_ALLOW_SEALING)
        os.ftruncate(self.handle, SIZE)
        fcntl.fcntl(self.handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.memory = mmap.mmap(self.handle, SIZE)
        self.kicks = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(3)]
        self.calls = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(3)]
        self.queues = [Queue(number) for number in range(3)]

    def close(self) -> None:
        self.backend.close()
        self.monitor.close()
        self.memory.close()
        for handle in (self.handle, *self.kicks, *self.calls):
            os.close(handle)

    def turn(self, times: int = 3) -> None:
        for _ in range(times):
            self.backend.run_once(0)

    # ---------------------------------------------------------------- the monitor

    def say(self, request: int, body: bytes, files: list[int] | None = None, flags: int = 1) -> None:
        socket.send_fds(self.monitor, [struct.pack("<III", request, flags, len(body)) + body], files or [])
        self.turn(2)

    def answer(self) -> bytes:
        self.monitor.settimeout(60)
        head = self.monitor.recv(12)
        return self.monitor.recv(struct.unpack("<III", head)[2])

    def boot(self) -> None:
        """Tells memory and rings, and offers buffers to receive into."""
        self.memory[:] = bytes(SIZE)
        self.queues = [Queue(number) for number in range(3)]
        self.say(5, struct.pack("<II", 1, 0) + struct.pack("<QQQQ", 0, SIZE, USER, 0), [self.handle])
        for queue in self.queues:
            self.say(8, struct.pack("<II", queue.number, RING))
            where = (queue.descriptors, queue.returned, queue.offered)
            self.say(9, struct.pack("<IIQQQQ", queue.number, 0, *(USER + one for one in where), 0))
            self.say(10, struct.pack("<II", queue.number, 0))
            self.say(13, struct.pack("<Q", queue.number), [self.calls[queue.number]])
            self.say(12, struct.pack("<Q", queue.number), [self.kicks[queue.number]])
        for slot in range(RING):
            self.offer_room(slot)
        self.kick(RECEIVE)

    def shut_down(self) -> None:
        """As a machine's reset: all rings stop."""
        for queue in self.queues:
            self.say(11, struct.pack("<II", queue.number, 0))
            self.answer()

    # ---------------------------------------------------------------- the rings

    def describe(self, queue: int, slot: int, address: int, length: int, flags: int = 0, after: int = 0) -> None:
        at = self.queues[queue].descriptors + 16 * slot
        struct.pack_into("<QIHH", self.memory, at, address, length, flags, after)

    def offer(self, queue: int, head: int) -> None:
        ring = self.queues[queue]
        struct.pack_into("<H", self.memory, ring.offered + 4 + 2 * (ring.available % RING), head)
        ring.available = (ring.available + 1) & 0xFFFF
        struct.pack_into("<H", self.memory, ring.offered + 2, ring.available)

    def offer_room(self, slot: int) -> None:
        self.describe(RECEIVE, slot, _BUFFERS[RECEIVE] + slot * PIECE, PIECE, flags=2)
        self.offer(RECEIVE, slot)

    def kick(self, queue: int) -> None:
        os.eventfd_write(self.kicks[queue], 1)
        self.turn()

    def send(
        self,
        op: int,
        ports: tuple[int, int],
        data: bytes = b"",
        *,
        length: int | None = None,
        kind: int = 1,
        flags: int = 0,
        room: int = 1 << 18,
        taken: int = 0,
        target: int = 2,
        source: int = CID,
        kick: bool = True,
    ) -> None:
        """A packet of the guest's; header and payload lie in two buffers."""
        slot = (2 * self.queues[TRANSMIT].available) % RING
        at = _BUFFERS[TRANSMIT] + slot * PIECE
        size = len(data) if length is None else length
        head = HEADER.pack(source, target, ports[0], ports[1], size, kind, op, flags, room, taken)
        self.memory[at : at + len(head)] = head
        self.memory[at + PIECE : at + PIECE + len(data)] = data
        self.describe(TRANSMIT, slot, at, len(head), 1 if data else 0, slot + 1)
        self.describe(TRANSMIT, slot + 1, at + PIECE, len(data))
        self.offer(TRANSMIT, slot)
        if kick:
            self.kick(TRANSMIT)

    def heard(self, *, refill: bool = True) -> list[tuple[Header, bytes]]:
        """What the host has sent since the last call."""
        self.turn()
        ring, found = self.queues[RECEIVE], list[tuple[Header, bytes]]()
        while struct.unpack_from("<H", self.memory, ring.returned + 2)[0] != ring.used:
            slot, length = struct.unpack_from("<II", self.memory, ring.returned + 4 + 8 * (ring.used % RING))
            ring.used = (ring.used + 1) & 0xFFFF
            at = _BUFFERS[RECEIVE] + slot * PIECE
            header = parse(self.memory[at : at + HEADER.size])
            assert length == HEADER.size + header.length
            found.append((header, self.memory[at + HEADER.size : at + length]))
            if refill:
                self.offer_room(slot)
        if found and refill:
            os.eventfd_write(self.kicks[RECEIVE], 1)
            self.turn()
        return found
