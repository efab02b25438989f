"""A bridge between a guest and its mediation listener, like the supervisor's, with faults on demand."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from agent_common.net import Endpoint, ListeningSocket, Tcp, Unix, listen_at, parse_endpoint

from .link import BridgeLink, Direction, Flow, How, Trip, cancel_and_wait, hang_up
from .schedule import BridgeFaults, Event, schedule

CAPACITY = 128
Directions = Direction | Literal["both"]
_PROBE_SECONDS = 0.15
_MOST_HISTORY = 10_000


@dataclass(slots=True)
class Counts:
    """Counts since the bridge was made."""

    accepted: int = 0
    """Connections of the guest, refused ones included."""
    open: int = 0
    """Connections that are open now, with those that still dial or whose end is held."""
    refused: int = 0
    """Connections closed at once because there were too many."""
    failed_dials: int = 0
    """Connections closed because the host could not be reached."""
    breaks: int = 0
    """Connections that a fault broke, or one side of them."""
    to_host: int = 0
    """Bytes that have passed to the host."""
    to_guest: int = 0
    probes: int = 0
    """Connections made by floods."""


class FakeBridge:
    """A bridge that accepts, then dials, then copies bytes, and injects faults.

        async with FakeBridge("unix:/tmp/guest.sock", "tcp://127.0.0.1:9900") as bridge:
            ...  # the guest dials bridge.url
            bridge.cut()

    Addresses are `unix:/path`, `tcp://host:port` (port 0 listens on any free one) and `vsock://cid:port`. `faults`
    happen by themselves, in the order of their seed; a method makes one happen now. Methods about connections take one
    `link`; None means all of them. Use it within one event loop. Raises ValueError for an invalid address,
    OSError when it cannot listen.
    """

    def __init__(
        self, listen: str, target: str, *, faults: BridgeFaults | None = None, capacity: int = CAPACITY
    ) -> None:
        self.counts = Counts()
        self.capacity = capacity
        self.faults = faults or BridgeFaults()
        self.host_is_down = False
        """True: guests are accepted and closed, as when nothing listens at the target."""
        self._endpoint = _parse_endpoint("listen", listen)
        self._target = _parse_endpoint("target", target)
        self._listening: ListeningSocket | None = None
        self._links: dict[BridgeLink, asyncio.Task[None]] = {}
        self._history: deque[Event] = deque(maxlen=_MOST_HISTORY)
        self._tasks: set[asyncio.Task[None]] = set()
        self._next_trips: dict[Direction, deque[Trip]] = {}
        self._stalled: set[Direction] = set()
        self._outages = 0
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self.restore()
        self._start(self._play())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await cancel_and_wait(self._tasks)
        self.refuse()
        await cancel_and_wait(set(self._links.values()))

    # ---------------------------------------------------------------- state

    @property
    def url(self) -> str:
        """Where the guest dials, with the port that was chosen."""
        return str(self._endpoint)

    @property
    def target(self) -> str:
        """The address dialled for new connections; may be set."""
        return str(self._target)

    @target.setter
    def target(self, address: str) -> None:
        self._target = _parse_endpoint("target", address)

    @property
    def links(self) -> list[BridgeLink]:
        """The open connections, oldest first."""
        return list(self._links)

    @property
    def listening(self) -> bool:
        return self._listening is not None

    @property
    def history(self) -> list[Event]:
        """The events of the schedule that were carried out, oldest first; the latest 10,000."""
        return list(self._history)

    async def until(self, holds: Callable[[Counts], bool], seconds: float = 10.0) -> Counts:
        """Wait until the counts pass the test, and return them. Raises TimeoutError that shows them."""
        try:
            async with asyncio.timeout(seconds):
                while not holds(self.counts):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"after {seconds:g} s the bridge still has {self.counts}") from None
        return self.counts

    # ---------------------------------------------------------------- faults of connections

    def cut(self, link: BridgeLink | None = None, *, how: How = "rst") -> int:
        """Break connections; return how many."""
        return self._count_breaks(sum(each.cut(how) for each in self._selected(link)))

    def snapshot(self) -> int:
        """Reset the guest's side of every connection, as taking a snapshot does; return how many."""
        return self._count_breaks(sum(each.cut_guest() for each in self.links))

    def reorder(self, how: How = "rst") -> list[BridgeLink]:
        """End every connection at the guest only, and hold the end back from the host until `release_eof`: a guest
        that reconnects reaches the host before its old end does. Return the connections that the host still has."""
        links = self.links
        for link in links:
            link.flows["to_host"].end_allowed.clear()
        self._count_breaks(sum(link.cut_guest(how) for link in links))
        return links

    def release_eof(self, link: BridgeLink | None = None) -> None:
        """Undo `reorder`."""
        for each in self._selected(link):
            each.flows["to_host"].end_allowed.set()

    def trip(self, direction: Direction, trip: Trip, link: BridgeLink | None = None) -> None:
        """Have passing bytes break or stall a connection; None means the newest, or the next when there is none.

        bridge.trip("to_host", Trip("rst", after=100)); bridge.trip("to_guest", Trip("stall", mark=b'"request_id"'))
        """
        link = link or next((each for each in reversed(self.links) if each.intact), None)
        if link is None:
            self._next_trips[direction] = deque([trip])
        else:
            link.flows[direction].arm(trip)

    def trip_each(self, direction: Direction, trips: Iterable[Trip]) -> None:
        """Have each of the connections to come break in its own way, in their order."""
        self._next_trips[direction] = deque(trips)

    def half_close(self, direction: Direction, link: BridgeLink | None = None) -> None:
        """End one direction; the other continues, to the guest's side too."""
        for each in self._selected(link):
            each.half_close(direction)

    def stall(self, direction: Directions = "both", link: BridgeLink | None = None) -> None:
        """Let no bytes and no end pass until `release`; None means connections to come too."""
        if link is None:
            self._stalled.update(_directions(direction))
        for flow in self._flows(direction, link):
            flow.open.clear()

    def release(self, direction: Directions = "both", link: BridgeLink | None = None) -> None:
        """Undo `stall`. Nothing was lost."""
        if link is None:
            self._stalled.difference_update(_directions(direction))
        for flow in self._flows(direction, link):
            flow.open.set()

    # ---------------------------------------------------------------- faults of the whole

    def refuse(self) -> None:
        """Stop listening; open connections continue."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening.sock)
            self._listening.close()
            self._listening = None

    def sever(self) -> None:
        """Stop listening and cut all, as a quarantine does."""
        self.refuse()
        self.cut()

    def restore(self) -> None:
        """Listen again, at the same address. Raises OSError when it is taken."""
        if self._listening is None:
            self._listening = listen_at(self._endpoint)
            self._endpoint = self._listening.endpoint
            self._listening.sock.setblocking(False)
            asyncio.get_running_loop().add_reader(self._listening.sock, self._accept)

    async def flap(self, every: float = 0.05, seconds: float = 1.0, how: How = "rst") -> int:
        """Cut everything at intervals for a time; return how many connections that broke."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        broken = 0
        while loop.time() < end:
            broken += self.cut(how=how)
            await asyncio.sleep(every)
        return broken

    async def flood(self, count: int, *, rate: float = 1000.0, how: How = "fin") -> int:
        """Connect to the target and end at once, `rate` times a second at most; return how often something listened."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        reached = 0
        for number in range(count):
            await asyncio.sleep(max(0.0, begun + number / rate - loop.time()))
            self.counts.probes += 1
            with contextlib.suppress(OSError):  # TimeoutError is one
                async with asyncio.timeout(_PROBE_SECONDS):
                    hang_up(await _dial(self._target), how)
                reached += 1
        return reached

    # ---------------------------------------------------------------- connections

    def _accept(self) -> None:
        try:
            guest, _ = self._listening.sock.accept() if self._listening else (None, None)
        except OSError:  # the guest is gone, or there are no descriptors: then it waits
            return
        if guest is None:
            return
        _set_options(guest)
        self.counts.accepted += 1
        if len(self._links) >= self.capacity:
            self.counts.refused += 1
            hang_up(guest)
        elif self.host_is_down:
            self.counts.failed_dials += 1
            hang_up(guest)
        else:
            self._open_link(guest)
        self._changed.set()

    def _open_link(self, guest: socket.socket) -> None:
        link = BridgeLink(self.counts.accepted, guest, self._count_bytes)
        for direction, flow in link.flows.items():
            if direction in self._stalled:
                flow.open.clear()
            if trips := self._next_trips.get(direction):
                flow.arm(trips.popleft())
        self._links[link] = task = asyncio.get_running_loop().create_task(self._run_link(link))
        task.add_done_callback(lambda _: guest.close())  # if it was cancelled before its first step
        self.counts.open = len(self._links)

    async def _run_link(self, link: BridgeLink) -> None:
        try:
            await link.run(self._dial_target)
        finally:
            del self._links[link]
            self.counts.open = len(self._links)
            self._count_breaks(link.tripped)

    async def _dial_target(self) -> socket.socket:
        try:
            return await _dial(self._target)
        except OSError:
            self.counts.failed_dials += 1
            raise

    def _count_bytes(self, direction: Direction, size: int) -> None:
        setattr(self.counts, direction, getattr(self.counts, direction) + size)
        self._changed.set()

    def _count_breaks(self, broken: int) -> int:
        self.counts.breaks += broken
        self._changed.set()
        return broken

    def _selected(self, link: BridgeLink | None) -> list[BridgeLink]:
        return self.links if link is None else [link]

    def _flows(self, direction: Directions, link: BridgeLink | None) -> list[Flow]:
        return [flow for each in self._selected(link) for flow in each.select(direction)]

    # ---------------------------------------------------------------- the schedule

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _play(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for event in schedule(self.faults):
            await asyncio.sleep(max(0.0, begun + event.at - loop.time()))
            self._start(self._apply(event))
            self._history.append(event)

    async def _apply(self, event: Event) -> None:
        rate = self.faults.flood_rate
        match event.kind:
            case "flood":
                await self.flood(round(rate * event.seconds), rate=rate, how=event.how)
            case "flap":
                await self.flap(seconds=event.seconds, how=event.how)
            case "refuse" | "sever":
                await self._outage(event)
            case "reorder":
                links = self.reorder(event.how)
                await asyncio.sleep(event.seconds)
                for link in links:
                    self.release_eof(link)
            case "snapshot":
                self.snapshot()
            case _ if self._links:
                await self._apply_to_one(event, self.links[int(event.pick * len(self._links))])
            case _:
                pass

    async def _apply_to_one(self, event: Event, link: BridgeLink) -> None:
        match event.kind:
            case "stall":
                self.stall(event.direction, link)
                await asyncio.sleep(event.seconds)
                self.release(event.direction, link)
            case "cut":
                self.trip(event.direction, Trip(event.how, after=event.count), link)
            case "half_close":
                self.half_close(event.direction, link)
            case _:
                self.cut(None if event.all else link, how=event.how)

    async def _outage(self, event: Event) -> None:
        """Outages may overlap; the last to end listens again."""
        self._outages += 1
        self.refuse()
        if event.kind == "sever":
            self.cut()
        await asyncio.sleep(event.seconds)
        self._outages -= 1
        if not self._outages:
            self.restore()


def _directions(directions: Directions) -> tuple[Direction, ...]:
    return ("to_host", "to_guest") if directions == "both" else (directions,)


def _parse_endpoint(name: str, address: str) -> Endpoint:
    try:
        return parse_endpoint(address, listening=name == "listen")
    except ValueError as error:
        raise ValueError(f"{name} {error}") from error


async def _dial(endpoint: Endpoint) -> socket.socket:
    """Connect once, for as long as the kernel takes. Raises OSError."""
    loop = asyncio.get_running_loop()
    address: Any
    if isinstance(endpoint, Tcp):
        family, _, _, _, address = (await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM))[0]
    elif isinstance(endpoint, Unix):
        family = socket.AF_UNIX
        address = endpoint.path
    else:
        family = socket.AF_VSOCK
        address = (endpoint.cid, endpoint.port)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        _set_options(sock)
        await loop.sock_connect(sock, address)
        if family != socket.AF_UNIX and sock.getpeername() == sock.getsockname():
            raise ConnectionRefusedError("nothing listens there")  # a dialled local port may connect to itself
    except BaseException:
        sock.close()
        raise
    return sock


def _set_options(sock: socket.socket) -> None:
    sock.setblocking(False)
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # no delay, so that pieces are not joined
