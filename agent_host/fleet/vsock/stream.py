"""One stream between a port of the guest and the socket of a host program, with the flow control of both directions."""

from __future__ import annotations

import socket
from typing import Literal

from .loop import LoopTimer
from .packet import U32

STREAM_BUFFER_BYTES = 256 << 10
"""Bytes that the guest may send before the host's program reads them, which bounds the memory of a stream."""
Key = tuple[int, int]
"""The guest's port and the host's port."""
State = Literal["greeting", "asked", "open"]


class VsockStream:
    """The state of a stream. `asked`: opened by the host, and not yet answered by the guest."""

    __slots__ = (
        "events",
        "fwd_cnt",
        "host_ended",
        "key",
        "last_fwd_cnt",
        "out_buffer",
        "owed_ops",
        "own_bytes",
        "paused",
        "peer_buf_alloc",
        "peer_fwd_cnt",
        "queued",
        "shutdown_flags",
        "sock",
        "state",
        "timer",
        "tx_cnt",
    )

    def __init__(self, sock: socket.socket, state: State) -> None:
        self.sock = sock
        self.key: Key = (0, 0)
        self.state: State = state
        self.out_buffer = bytearray()
        """Data from the guest that the host's program has not read yet."""
        self.own_bytes = 0
        """Bytes at the start of `out_buffer` that we wrote, not the guest, and that give it no credit."""
        self.tx_cnt = 0
        self.peer_buf_alloc = self.peer_fwd_cnt = 0
        self.fwd_cnt = self.last_fwd_cnt = 0
        self.shutdown_flags = 0
        """The directions that the guest has shut down."""
        self.host_ended = False
        """Whether the host's program has closed its side."""
        self.owed_ops = 0
        """Bit set of the control packets that must be sent to the guest."""
        self.queued = self.paused = False
        self.events = 0
        self.timer: LoopTimer | None = None

    @property
    def credit(self) -> int:
        """Bytes that the guest has room for; never negative, even if its counters are wrong."""
        return max(0, self.peer_buf_alloc - ((self.tx_cnt - self.peer_fwd_cnt) & U32))

    @property
    def credit_due(self) -> bool:
        """Whether to send the guest a credit update, before it runs out of the credit that it knows of."""
        return ((self.fwd_cnt - self.last_fwd_cnt) & U32) >= STREAM_BUFFER_BYTES // 4

    def deliver(self, data: list[memoryview], length: int) -> bool:
        """Pass on or buffer data of the guest. Returns False if it has exceeded its credit. Raises OSError."""
        if len(self.out_buffer) + length > STREAM_BUFFER_BYTES + self.own_bytes:
            return False
        passed = 0 if self.out_buffer else self._send(data)
        self.fwd_cnt = (self.fwd_cnt + passed) & U32
        for piece in data:
            self.out_buffer += piece[passed:] if passed else piece
            passed = max(0, passed - len(piece))
        return True

    def drain(self) -> None:
        """Pass on buffered data. Raises OSError."""
        with memoryview(self.out_buffer) as whole:
            count = self._send([whole])
        del self.out_buffer[:count]
        ours = min(count, self.own_bytes)
        self.own_bytes -= ours
        self.fwd_cnt = (self.fwd_cnt + count - ours) & U32

    def _send(self, data: list[memoryview]) -> int:
        try:
            return self.sock.sendmsg(data)
        except BlockingIOError:
            return 0
