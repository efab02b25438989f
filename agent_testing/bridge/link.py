"""One connection through the bridge: a guest's socket, a host's socket, and how bytes and ends pass between them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

How = Literal["rst", "fin"]
"""How a connection ends: reset, or closed. A unix socket knows no reset: there both look like an end, unless bytes of
the peer were left unread."""
Direction = Literal["to_host", "to_guest"]
PIECE = 64 * 1024
"""Bytes held at most; while they wait nothing more is read, so that the kernel blocks the writer."""
_DIAL_SECONDS = 0.05
"""Seconds that a dial may still take once the guest is lost."""
_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Trip:
    """Bytes that pass break the connection, or stall their direction; what comes after them does not pass."""

    how: How | Literal["stall"] = "rst"
    after: int | None = None
    """Bytes that pass before the fault."""
    mark: bytes = b""
    """Text before which the fault happens. If the text comes in several reads, the earlier ones have passed."""


class Flow:
    """The state of one direction."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.end_allowed = asyncio.Event()
        self.open.set()
        self.end_allowed.set()
        self._trip: Trip | None = None
        self._left: int | None = None
        self._tail = b""

    def arm(self, trip: Trip) -> None:
        """Set a trip, counted from here, in place of any other."""
        self._trip = trip
        self._left = trip.after
        self._tail = b""

    def split(self, data: bytes) -> tuple[bytes, bytes, How | Literal["stall"] | None]:
        """Split data at the trip: return the bytes before it, the bytes after it, and the fault in between."""
        trip = self._trip
        size = len(data)
        if trip is None:
            return data, b"", None
        at = size + 1
        if trip.mark and (found := (self._tail + data).find(trip.mark)) >= 0:
            at = max(0, found - len(self._tail))
        if self._left is not None:
            at = min(at, self._left)
            self._left -= min(self._left, size)
        if at > size:
            self._tail = (self._tail + data)[-len(trip.mark) + 1 :] if len(trip.mark) > 1 else b""
            return data, b"", None
        self._trip = None
        return data[:at], data[at:], trip.how

    async def wait_for_end(self) -> None:
        """Wait until an end may pass."""
        await self.open.wait()
        await self.end_allowed.wait()


class BridgeLink:
    """A connection of the guest and the one to the host that belongs to it.

    An end of the guest, a reset too, passes as a half close. An end of the host, or a failed write to the guest, ends
    both directions.
    """

    def __init__(self, number: int, guest: socket.socket, on_passed: Callable[[Direction, int], None]) -> None:
        self.number = number
        """Number of the connection, from 1 in the order of acceptance."""
        self.tripped = False
        """Whether passing bytes have broken it."""
        self.flows: dict[Direction, Flow] = {"to_host": Flow(), "to_guest": Flow()}
        self._guest = guest
        self._host: socket.socket | None = None
        self._dialled: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
        self._on_passed = on_passed
        self._guest_lost: How | None = None
        self._ended: asyncio.Future[How] = asyncio.get_running_loop().create_future()
        self._copies: dict[Direction, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def intact(self) -> bool:
        """True until something breaks it."""
        return not self._ended.done() and self._guest_lost is None

    def select(self, direction: Direction | Literal["both"]) -> list[Flow]:
        return [flow for name, flow in self.flows.items() if direction in (name, "both")]

    # ---------------------------------------------------------------- faults

    def cut(self, how: How = "rst") -> bool:
        """End both sockets; return False if that has been done."""
        if self._ended.done():
            return False
        self._ended.set_result(how)
        return True

    def cut_guest(self, how: How = "rst") -> bool:
        """End the guest's socket only; the host sees the end when ends may pass. Return False if it was cut before."""
        if not self.intact:
            return False
        self._guest_lost = how
        self._start(self._lose_guest(how))
        return True

    def half_close(self, direction: Direction) -> None:
        """End one direction as if its writer had; the other continues."""
        self._start(self._end_direction(direction))

    # ---------------------------------------------------------------- copying

    async def run(self, dial: Callable[[], Awaitable[socket.socket]]) -> None:
        """Dial the host, and copy until the connection has ended; `dial` may raise OSError."""
        carrying = self._start(self._carry(dial))
        how: How = "fin"
        try:
            await asyncio.wait({carrying, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            if not carrying.done() or carrying.exception() is None:
                how = await self._ended
        finally:
            await cancel_and_wait(self._tasks)
            for sock in (self._guest, self._host):
                if sock is not None:
                    hang_up(sock, how)

    async def _carry(self, dial: Callable[[], Awaitable[socket.socket]]) -> None:
        self._host = host = await dial()
        self._copies["to_host"] = self._start(self._copy_to_host(host))
        self._copies["to_guest"] = self._start(self._copy_to_guest(host))
        self._dialled.set_result(host)

    async def _copy_to_host(self, host: socket.socket) -> None:
        await self._copy("to_host", self._guest, host)
        self._stop_writing("to_host", host)

    async def _copy_to_guest(self, host: socket.socket) -> None:
        await self._copy("to_guest", host, self._guest)
        self.cut("fin")

    async def _copy(self, direction: Direction, source: socket.socket, sink: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        flow = self.flows[direction]
        with contextlib.suppress(OSError):  # a copy that fails ends like one that is done
            while data := await loop.sock_recv(source, PIECE):
                while data:
                    await flow.open.wait()
                    now, data, tripped = flow.split(data)
                    if now:
                        await loop.sock_sendall(sink, now)
                        self._on_passed(direction, len(now))
                    if tripped == "stall":
                        flow.open.clear()
                    elif tripped:
                        self.tripped = self.cut(tripped)
                        await asyncio.Event().wait()  # until `run` cancels it
        await flow.wait_for_end()

    def _stop_writing(self, direction: Direction, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        self._copies.pop(direction, None)
        if not self._copies:
            self.cut("fin")

    async def _end_direction(self, direction: Direction) -> None:
        host = await self._dialled
        await cancel_and_wait({copy for name, copy in self._copies.items() if name == direction})
        self._stop_writing(direction, host if direction == "to_host" else self._guest)

    async def _lose_guest(self, how: How) -> None:
        """Close the guest's socket, then end as the rules say: the host's first byte has no reader."""
        await asyncio.wait({self._dialled}, timeout=_DIAL_SECONDS)
        if not self._dialled.done():
            self.cut(how)
            return
        host = self._dialled.result()
        await cancel_and_wait(set(self._copies.values()))
        hang_up(self._guest, how)
        self._copies = {"to_guest": self._start(self._wait_for_host(host))}
        await self.flows["to_host"].wait_for_end()
        self._stop_writing("to_host", host)

    async def _wait_for_host(self, host: socket.socket) -> None:
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_recv(host, 1)
        await self.flows["to_guest"].wait_for_end()
        self.cut("fin")

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        return task


async def cancel_and_wait(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until none of them waits on a socket any more."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def hang_up(sock: socket.socket, how: How = "fin") -> None:
    """Close a socket that nothing waits on any more. Idempotent."""
    if how == "rst" and sock.family in (socket.AF_INET, socket.AF_INET6) and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    sock.close()
