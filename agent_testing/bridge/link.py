"""One connection through the bridge: a guest's leg, a host's leg, two flows, and the rules by which they end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal

from .bridge_clock import BridgeClock
from .byte_pump import DIRECTIONS, BytePump, Direction, End, Trip
from .sockets import How, hang_up, stop_writing

Leg = Literal["guest", "host"]
OnPassed = Callable[[Direction, int], None]


class BridgeLink:
    """Made when the guest's connection is accepted; `run` dials the host and copies until both legs are closed.

    The guest's end is passed on as a half close. The host's end takes both directions down, which is also what a failed
    write to the guest does.
    """

    def __init__(self, number: int, guest: socket.socket, clock: BridgeClock, on_passed: OnPassed) -> None:
        self.number = number
        """Counts up from 1 in the order of acceptance."""
        self.dialled = False
        """The host was reached."""
        self.tripped = False
        """Bytes that went by have broken it."""
        self.to_host = BytePump("to_host", clock, on_passed)
        self.to_guest = BytePump("to_guest", clock, on_passed)
        self._legs: dict[Leg, socket.socket] = {"guest": guest}
        self._copies: dict[Direction, asyncio.Task[End]] = {}
        self._closed_as: How | None = None
        self._broken: dict[Leg, How] = {}
        self._half_closed: set[Direction] = set()
        self._changed = asyncio.Event()

    @property
    def intact(self) -> bool:
        """Nobody has broken it yet."""
        return self._closed_as is None and not self._broken

    def pumps(self, direction: Direction | Literal["both"] = "both") -> tuple[BytePump, ...]:
        """One direction, or both."""
        return tuple(self._pump(each) for each in DIRECTIONS if direction in (each, "both"))

    # faults

    def cut(self, how: How = "rst", leg: Leg | Literal["both"] = "both") -> bool:
        """Breaks it, unless that has been done. One leg alone: the other follows by the rules, or when ends are let."""
        if self._closed_as is not None or leg in self._broken:
            return False
        if leg == "both" or self._broken:
            self._closed_as = how
        else:
            self._broken[leg] = how
        self._changed.set()
        return True

    def half_close(self, direction: Direction) -> None:
        """Ends one direction as if its writer had; the other goes on, to the guest's side too."""
        self._half_closed.add(direction)
        self._changed.set()

    def arm(self, direction: Direction, trip: Trip) -> None:
        """Breaks it, or stalls it, when so many bytes or some text go by."""
        self._pump(direction).arm(trip)

    # life

    async def run(self, dial: Callable[[], Awaitable[socket.socket]]) -> None:
        """Carries the connection to its end, which comes at once when `dial` raises OSError."""
        try:
            await self._dial_host(dial)
            if self.dialled:
                guest, host = self._legs["guest"], self._legs["host"]
                self._start("to_host", self.to_host.copy(guest, host))
                self._start("to_guest", self.to_guest.copy(host, guest))
                while self._closed_as is None:
                    await self._step()
        finally:
            await self._stop(*self._copies)
            self.close()

    def close(self) -> None:
        """Closes what is still open, as it was broken. Nothing may be copying."""
        for leg in tuple(self._legs):
            self._hang_up(leg, self._closed_as or self._broken.get(leg, "fin"))

    async def _dial_host(self, dial: Callable[[], Awaitable[socket.socket]]) -> None:
        """Dials once, for as long as the kernel takes; a fault meanwhile ends it."""
        dialling = asyncio.ensure_future(dial())
        news = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({dialling, news}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            if not dialling.done():  # to wait for what is there already would be a moment in which it can get lost
                dialling.cancel()
                await asyncio.wait({dialling})
            if not dialling.cancelled() and dialling.exception() is None:
                self._legs["host"] = dialling.result()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            dialling.result()
        self.dialled = "host" in self._legs

    async def _step(self) -> None:
        """Waits for something to happen, then does what the rules say."""
        await self._wait()
        for leg, how in tuple(self._broken.items()):
            if leg in self._legs:
                await self._close_leg(leg, how)
        for direction in tuple(self._half_closed):
            if direction in self._copies:
                await self._stop(direction)
                self._stop_writing(direction)
        self._apply_eof_rules(self._result("to_host"), self._result("to_guest"))

    def _apply_eof_rules(self, up: End | None, down: End | None) -> None:
        """What follows from the end of a direction."""
        for end in (up, down):
            if end is not None and end != "end":
                self._closed_as, self.tripped = self._closed_as or end, True
        if up == "end" and self._closed_as is None:
            self._stop_writing("to_host")
        if down == "end" or not self._copies:
            self._closed_as = self._closed_as or "fin"

    async def _wait(self) -> None:
        news = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({news, *self._copies.values()}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
        self._changed.clear()

    async def _close_leg(self, leg: Leg, how: How) -> None:
        """Closes one leg. What was in hand is lost with it."""
        await self._stop(*self._copies)
        self._hang_up(leg, how)
        if leg == "host":
            self._start("to_guest", self.to_guest.wait_for_eof())
        else:
            self._start("to_guest", self._wait_for_host_byte())
            self._start("to_host", self.to_host.wait_for_eof())

    async def _wait_for_host_byte(self) -> End:
        """There is no guest to write to, so the first byte is one too many."""
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_recv(self._legs["host"], 1)
        return await self.to_guest.wait_for_eof()

    # parts

    def _pump(self, direction: Direction) -> BytePump:
        return self.to_host if direction == "to_host" else self.to_guest

    def _start(self, direction: Direction, copy: Coroutine[Any, Any, End]) -> None:
        self._copies[direction] = asyncio.create_task(copy)

    def _result(self, direction: Direction) -> End | None:
        """How a copy that is done came to its end; told once."""
        copy = self._copies.get(direction)
        if copy is None or not copy.done():
            return None
        del self._copies[direction]
        return copy.result()

    async def _stop(self, *directions: Direction) -> None:
        """Nothing waits on a socket after this, which is what makes it safe to close."""
        copies = [self._copies.pop(direction) for direction in tuple(directions)]
        for copy in copies:
            copy.cancel()
        if copies:
            await asyncio.wait(copies)

    def _stop_writing(self, direction: Direction) -> None:
        sink: Leg = "host" if direction == "to_host" else "guest"
        if sink in self._legs:
            stop_writing(self._legs[sink])

    def _hang_up(self, leg: Leg, how: How) -> None:
        hang_up(self._legs.pop(leg), how)
