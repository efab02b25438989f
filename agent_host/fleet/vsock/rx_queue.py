"""The guest's receive queue, for code that sends packets to the guest."""

from __future__ import annotations

import socket

from .packet import HEADER
from .ring import Ring, RingBroken

MOST_BUFFERS = 64


class RxQueue:
    """The queue. While the guest is not running it has no buffers."""

    def __init__(self) -> None:
        self.ring: Ring | None = None

    @property
    def has_buffers(self) -> bool:
        """Whether the guest has made buffers available. Raises RingBroken."""
        return self.ring is not None and self.ring.pending() > 0

    def put_packet(self, packet: bytes) -> None:
        """Send a packet without payload; there must be a buffer for it. Raises RingBroken."""
        ring = self._require_ring()
        head, buffers = ring.peek(writable=True)
        _write(buffers, packet)
        ring.return_chain(head, len(packet))

    def receive_from(self, sock: socket.socket, limit: int) -> tuple[int, list[memoryview], int]:
        """Read at most `limit` bytes from the socket directly into the guest's next buffers.

        Returns the number of bytes, and the buffers and the head for `finish_packet`. Raises OSError (BlockingIOError
        if there is no data) and RingBroken.
        """
        head, buffers = self._require_ring().peek(writable=True)
        into = _slice_buffers(buffers, HEADER.size, limit)
        if not into:
            raise RingBroken("a receive buffer has no room for a payload")
        return sock.recvmsg_into(into)[0], buffers, head

    def finish_packet(self, header: bytes, count: int, buffers: list[memoryview], head: int) -> None:
        """Complete the packet that `receive_from` has filled, by writing its header."""
        _write(buffers, header)
        self._require_ring().return_chain(head, len(header) + count)

    def _require_ring(self) -> Ring:
        if self.ring is None:
            raise RingBroken("there is no receive queue")
        return self.ring


def _write(buffers: list[memoryview], data: bytes) -> None:
    for buffer in buffers:
        part = data[: len(buffer)]
        buffer[: len(part)] = part
        data = data[len(part) :]
        if not data:
            return
    raise RingBroken("a receive buffer has no room for a header")


def _slice_buffers(buffers: list[memoryview], skip: int, limit: int) -> list[memoryview]:
    found: list[memoryview] = []
    for buffer in buffers:
        piece = buffer[skip : skip + limit]
        skip = max(0, skip - len(buffer))
        if piece:
            found.append(piece)
            limit -= len(piece)
        if not limit or len(found) == MOST_BUFFERS:
            break
    return found
