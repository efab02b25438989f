"""One stream between a guest's port and a host program's socket: its two buffers' worth of credit."""

from __future__ import annotations

import socket
from typing import Literal

from .loop import LoopTimer
from .packet import U32

STREAM_BUFFER_BYTES = 256 << 10
"""Bytes that a guest may send ahead of the host's program: the most that one stream can make us hold."""
Key = tuple[int, int]
"""The guest's port and the host's."""
State = Literal["greeting", "asked", "open"]


class VsockStream:
    """`greeting`: a host program has not said yet where to. `asked`: the guest has not answered yet."""

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
        """From the guest, for the host's program."""
        self.own_bytes = 0
        """Bytes at the head of `out` that are ours, not the guest's: they give it no credit."""
        self.tx_cnt = 0
        self.peer_buf_alloc = self.peer_fwd_cnt = 0
        self.fwd_cnt = self.last_fwd_cnt = 0
        self.shutdown_flags = 0
        """What the guest has said that it will not do any more."""
        self.host_ended = False
        """The host's program has ended its side."""
        self.owed_ops = 0
        """Bits of the operations that have to be told to the guest."""
        self.queued = self.paused = False
        self.events = 0
        self.timer: LoopTimer | None = None

    @property
    def credit(self) -> int:
        """Bytes that the guest has room for, whatever nonsense it tells."""
        return max(0, self.peer_buf_alloc - ((self.tx_cnt - self.peer_fwd_cnt) & U32))

    @property
    def credit_due(self) -> bool:
        """Whether the guest should be told of its room before it runs out of what it knows of."""
        return ((self.fwd_cnt - self.last_fwd_cnt) & U32) >= STREAM_BUFFER_BYTES // 4

    def deliver(self, data: list[memoryview], length: int) -> bool:
        """Passes the guest's bytes on or keeps them; False: more than it may send. Raises OSError."""
        if len(self.out_buffer) + length > STREAM_BUFFER_BYTES + self.own_bytes:
            return False
        passed = 0 if self.out_buffer else self._send(data)
        self.fwd_cnt = (self.fwd_cnt + passed) & U32
        for piece in data:
            self.out_buffer += piece[passed:] if passed else piece
            passed = max(0, passed - len(piece))
        return True

    def drain(self) -> None:
        """Passes on what was kept. Raises OSError."""
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
