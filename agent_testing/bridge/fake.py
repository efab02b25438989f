"""The bridge with faults: one method for each, and a schedule of them that plays by itself."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Literal, Self

from . import readiness
from .bridge import CAPACITY, Bridge, cancel_and_wait
from .bridge_clock import BridgeClock
from .byte_pump import BytePump, Direction, Trip
from .faults import BridgeFaults, Event
from .flood import flood
from .link import BridgeLink, Leg
from .readiness import BridgeChannel
from .scripted_faults import FaultScript
from .sockets import How

Directions = Direction | Literal["both"]


class FakeBridge(Bridge):
    """Stands between a guest and its host as the supervisor's bridge does, and goes wrong when told.

        async with FakeBridge("unix:/tmp/guest.sock", "tcp://127.0.0.1:9900") as bridge:
            ...  # the guest dials bridge.url
            bridge.cut()

    Addresses are `unix:/path`, `tcp://host:port` (port 0 listens on any free one) and `vsock://cid:port`. `faults`
    happen by themselves, in the order of their seed; a method makes one happen now. Those about connections take one
    `link`, and mean all there are without. Use it within one event loop. Raises ValueError for an address that is none,
    OSError when it cannot listen.
    """

    def __init__(
        self,
        listen: str,
        target: str,
        *,
        faults: BridgeFaults | None = None,
        channel: BridgeChannel | None = None,
        capacity: int = CAPACITY,
        clock: BridgeClock | None = None,
    ) -> None:
        super().__init__(listen, target, channel or BridgeChannel(), capacity, clock)
        self.faults = faults or BridgeFaults()
        self.severed = False
        self._script = FaultScript(self)
        self._next_trips: dict[Direction, Trip] = {}
        self._stalled: set[Direction] = set()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._script_task = asyncio.create_task(self._script.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await cancel_and_wait([self._script_task])
        finally:
            await super().__aexit__(kind, error, traceback)

    @property
    def history(self) -> list[Event]:
        """The events of the schedule that were carried out, oldest first; of very many the latest."""
        return list(self._script.history)

    # connections

    def cut(self, link: BridgeLink | None = None, *, how: How = "rst", leg: Leg | Literal["both"] = "both") -> int:
        """Breaks connections; says how many. One leg alone: the other follows by the rules, or when ends are let."""
        broken = sum(each.cut(how, leg) for each in self._selected(link))
        self.counts.breaks += broken
        self.notify_waiters()
        return broken

    def trip(self, direction: Direction, trip: Trip, link: BridgeLink | None = None) -> None:
        """Has bytes that go by break or stall a connection: without a link the newest, or the next when there is none.

        bridge.trip("to_host", Trip("rst", after=100)); bridge.trip("to_guest", Trip("stall", mark=b'"request_id"'))
        """
        link = link or next((each for each in reversed(self.links) if each.intact), None)
        if link is None:
            self._next_trips[direction] = trip
        else:
            link.arm(direction, trip)

    def half_close(self, direction: Direction, link: BridgeLink | None = None) -> None:
        """Ends one direction; the other goes on, to the guest's side too."""
        for each in self._selected(link):
            each.half_close(direction)

    def stall(self, direction: Directions = "both", link: BridgeLink | None = None) -> None:
        """Lets no bytes and no end through, until `release`; without a link on connections to come too."""
        if link is None:
            self._stalled.update(_directions(direction))
        for flow in self._pumps(direction, link):
            flow.stall()

    def release(self, direction: Directions = "both", link: BridgeLink | None = None) -> None:
        """Undoes `stall`. Nothing was lost."""
        if link is None:
            self._stalled.difference_update(_directions(direction))
        for flow in self._pumps(direction, link):
            flow.release()

    def hold_eof(self, direction: Directions = "both", link: BridgeLink | None = None) -> None:
        """Lets bytes through, but not the end, on the connections there are."""
        for flow in self._pumps(direction, link):
            flow.hold_eof()

    def release_eof(self, direction: Directions = "both", link: BridgeLink | None = None) -> None:
        """Undoes `hold_eof` and `reorder`."""
        for flow in self._pumps(direction, link):
            flow.release_eof()

    def reorder(self, how: How = "rst") -> list[BridgeLink]:
        """Takes every connection from the guest and tells the host nothing, until `release_eof`.

        A guest that comes back is through to the host before its old end is. Gives the connections the host still has.
        """
        links = self.links
        self.hold_eof("to_host")
        self.cut(how=how, leg="guest")
        return links

    def dribble(
        self, piece: int = 1, delay: float = 0.0, direction: Directions = "both", link: BridgeLink | None = None
    ) -> None:
        """Passes `piece` bytes at once, `delay` seconds apart, on the connections there are."""
        for flow in self._pumps(direction, link):
            flow.throttle(piece, delay)

    # the whole

    def refuse(self) -> None:
        """Nobody listens for the guest any more; what stands goes on."""
        self._socket.close()

    def sever(self) -> None:
        """Quarantine: nobody listens, the socket is gone from the disk, and all is cut."""
        self.severed = True
        self.state = "quarantined"
        self._socket.close()
        self.cut()

    def restore(self) -> None:
        """Undoes `refuse` and `sever`. Raises OSError when the address is taken."""
        self._socket.open()
        self.severed = False
        self.state = readiness.RUNNING

    def snapshot(self) -> int:
        """Resets the guest's side of every connection, as taking a snapshot does; the listening socket lives."""
        return self.cut(leg="guest")

    async def flap(self, every: float = 0.05, seconds: float = 1.0, how: How = "rst") -> int:
        """Cuts everything at intervals for a time; how many connections that broke."""
        end, broken = self.clock.monotonic() + seconds, 0
        while self.clock.monotonic() < end:
            broken += self.cut(how=how)
            await self.clock.sleep(every)
        return broken

    async def flood(
        self, count: int, *, rate: float = 1000.0, how: How = "fin", at: Literal["target", "guest"] = "target"
    ) -> int:
        """Connects and ends at once, so many times, `rate` a second at most; how often somebody listened.

        The supervisor's own probes go to the target; those at the guest's side pass through the bridge.
        """
        endpoint = self._target if at == "target" else self._socket.endpoint
        return await flood(endpoint, count, rate, how, self.clock, self._count_probe)

    # parts

    def prepare(self, link: BridgeLink) -> None:
        for flow in link.pumps():
            flow.throttle(self.faults.piece, self.faults.delay)
            if flow.direction in self._stalled:
                flow.stall()
        while self._next_trips:
            link.arm(*self._next_trips.popitem())

    def _selected(self, link: BridgeLink | None) -> list[BridgeLink]:
        return self.links if link is None else [link]

    def _pumps(self, direction: Directions, link: BridgeLink | None) -> list[BytePump]:
        return [flow for each in self._selected(link) for flow in each.pumps(direction)]

    def _count_probe(self) -> None:
        self.counts.probes += 1


def _directions(directions: Directions) -> tuple[Direction, ...]:
    return ("to_host", "to_guest") if directions == "both" else (directions,)
