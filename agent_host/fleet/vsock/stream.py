"""One stream between a guest's port and a host program's socket: its two buffers' worth of credit."""

from __future__ import annotations

import socket
from typing import Literal

from .loop import LoopTimer
from .packet import U32

ROOM = 256 << 10
"""Bytes that a guest may send ahead of the host's program: the most that one stream can make us hold."""
Key = tuple[int, int]
"""The guest's port and the host's."""
State = Literal["greeting", "asked", "open"]


class VsockStream:
    """`greeting`: a host program has not said yet where to. `asked`: the guest has not answered yet."""

    __slots__ = (
        "ended",
        "events",
        "key",
        "out",
        "owed",
        "paused",
        "peer_room",
        "peer_taken",
        "queued",
        "sent",
        "shut",
        "sock",
        "state",
        "taken",
        "timer",
        "told",
        "unpaid",
    )

    def __init__(self, sock: socket.socket, state: State) -> None:
        self.sock = sock
        self.key: Key = (0, 0)
        self.state: State = state
        self.out = bytearray()
        """From the guest, for the host's program."""
        self.unpaid = 0
        """Bytes at the head of `out` that are ours, not the guest's: they give it no credit."""
        self.sent = 0
        self.peer_room = self.peer_taken = 0
        self.taken = self.told = 0
        self.shut = 0
        """What the guest has said that it will not do any more."""
        self.ended = False
        """The host's program has ended its side."""
        self.owed = 0
        """Bits of the operations that have to be told to the guest."""
        self.queued = self.paused = False
        self.events = 0
        self.timer: LoopTimer | None = None

    @property
    def credit(self) -> int:
        """Bytes that the guest has room for, whatever nonsense it tells."""
        return max(0, self.peer_room - ((self.sent - self.peer_taken) & U32))

    @property
    def credit_due(self) -> bool:
        """Whether the guest should be told of its room before it runs out of what it knows of."""
        return ((self.taken - self.told) & U32) >= ROOM // 4

    def accept(self, data: list[memoryview], length: int) -> bool:
        """Passes the guest's bytes on or keeps them; False: more than it may send. Raises OSError."""
        if len(self.out) + length > ROOM + self.unpaid:
            return False
        passed = 0 if self.out else self._send(data)
        self.taken = (self.taken + passed) & U32
        for piece in data:
            self.out += piece[passed:] if passed else piece
            passed = max(0, passed - len(piece))
        return True

    def drain(self) -> None:
        """Passes on what was kept. Raises OSError."""
        with memoryview(self.out) as whole:
            count = self._send([whole])
        del self.out[:count]
        ours = min(count, self.unpaid)
        self.unpaid -= ours
        self.taken = (self.taken + count - ours) & U32

    def _send(self, data: list[memoryview]) -> int:
        try:
            return self.sock.sendmsg(data)
        except BlockingIOError:
            return 0
