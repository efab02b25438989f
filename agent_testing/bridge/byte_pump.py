"""One direction of a connection: bytes go through one piece at a time, and a fault decides when and how far.

Nothing queues here: one piece is in hand at most, and while that stalls nothing more is read, so that the kernel holds
the writer up as a real network would.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .bridge_clock import BridgeClock
from .sockets import How

Direction = Literal["to_host", "to_guest"]
DIRECTIONS: tuple[Direction, Direction] = ("to_host", "to_guest")
End = How | Literal["end"]
"""How a copy ended: a wire broke it, or there was no more."""
PIECE = 64 * 1024
"""Bytes in hand at most."""


@dataclass(frozen=True, slots=True)
class Trip:
    """A wire that bytes stumble over: the connection breaks, or the direction stalls, and the rest does not pass."""

    how: How | Literal["stall"] = "rst"
    after: int | None = None
    """How many more bytes pass before."""
    mark: bytes = b""
    """Text before which it happens; if it comes in several reads, what was read before has passed."""


class BytePump:
    """The state of one direction. `on_passed` is called with every piece that has passed."""

    def __init__(self, direction: Direction, clock: BridgeClock, on_passed: Callable[[Direction, int], None]) -> None:
        self.direction: Direction = direction
        self.passed = 0
        """Bytes that went through."""
        self._piece = PIECE
        self._delay = 0.0
        self._trip: Trip | None = None
        self._left: int | None = None
        self._tail = b""
        self._clock = clock
        self._on_passed = on_passed
        self._flowing = asyncio.Event()
        self._eof_allowed = asyncio.Event()
        self.release()
        self.release_eof()

    def throttle(self, piece: int, delay: float) -> None:
        """Reads so many bytes at once, 64 KiB at most, and has each piece wait so many seconds."""
        self._piece, self._delay = max(1, min(piece, PIECE)), delay

    def stall(self) -> None:
        """Lets nothing through, not even the end."""
        self._flowing.clear()

    def release(self) -> None:
        """Undoes `stall`; nothing was lost."""
        self._flowing.set()

    def hold_eof(self) -> None:
        """Lets bytes through, but not the end."""
        self._eof_allowed.clear()

    def release_eof(self) -> None:
        """Undoes `hold_eof`."""
        self._eof_allowed.set()

    def arm(self, trip: Trip) -> None:
        """Strings a wire, counted from here, in place of any other."""
        self._trip, self._left, self._tail = trip, trip.after, b""

    async def copy(self, source: socket.socket, sink: socket.socket) -> End:
        """Copies until the source ends, either fails, or a wire breaks the connection."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                data = await loop.sock_recv(source, self._piece)
                if not data:
                    break
                if self._delay:
                    await self._clock.sleep(self._delay)
                while data:
                    await self._flowing.wait()
                    now, data, tripped = self._split_at_trip(data)
                    if now:
                        await loop.sock_sendall(sink, now)
                        self.passed += len(now)
                        self._on_passed(self.direction, len(now))
                    if tripped == "stall":
                        self.stall()
                    elif tripped:
                        return tripped
        except OSError:
            pass  # a copy that fails ends like one that is done
        return await self.wait_for_eof()

    async def wait_for_eof(self) -> End:
        """Waits until the end may be passed on."""
        await self._flowing.wait()
        await self._eof_allowed.wait()
        return "end"

    def _split_at_trip(self, data: bytes) -> tuple[bytes, bytes, How | Literal["stall"] | None]:
        """What passes now, what comes after, and what happens in between."""
        trip, size = self._trip, len(data)
        if trip is None:
            return data, b"", None
        at = self._find_mark(data, trip.mark)
        if self._left is not None:
            at = min(at, self._left)
            self._left -= min(self._left, size)
        if at > size:
            self._tail = (self._tail + data)[-len(trip.mark) + 1 :] if len(trip.mark) > 1 else b""
            return data, b"", None
        self._trip = None
        return data[:at], data[at:], trip.how

    def _find_mark(self, data: bytes, mark: bytes) -> int:
        """Where in the data the mark begins; past its end when it is not there."""
        if not mark:
            return len(data) + 1
        at = (self._tail + data).find(mark)
        return len(data) + 1 if at < 0 else max(0, at - len(self._tail))
