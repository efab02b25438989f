"""The bridge as the supervisor runs it between a guest's vsock port and a TCP listener, without any fault."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Self

from agent_common.net import Endpoint, parse_endpoint

from . import readiness
from .bridge_clock import BridgeClock, SystemBridgeClock
from .byte_pump import Direction
from .counts import Counts
from .link import BridgeLink
from .readiness import BridgeChannel, MediationReady
from .socket import BridgeSocket
from .sockets import dial, hang_up

CAPACITY = 128
_CLOSE_SECONDS = 5.0


class Bridge:
    """Accepts, then dials, then copies bytes; the host's end is everybody's end, the guest's only half of one.

    There is no header, no retry, no idle timeout and no deadline for the dial; more than `capacity` connections are
    closed at once.
    """

    def __init__(
        self, listen: str, target: str, channel: BridgeChannel, capacity: int, clock: BridgeClock | None
    ) -> None:
        self.counts = Counts()
        self.channel = channel
        self.capacity = capacity
        self.state = readiness.RUNNING
        """The workspace's, which only `probe` looks at: `running`, `paused`, `stopped` and so on."""
        self.host_is_down = False
        """True: guests are accepted and closed, as when nobody listens at the target."""
        self.clock: BridgeClock = clock or SystemBridgeClock()
        self._target = _parse_endpoint("target", target)
        self._socket = BridgeSocket(_parse_endpoint("listen", listen), self._accept_guest)
        self._links: dict[BridgeLink, asyncio.Task[None]] = {}
        self._waiters: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> Self:
        self._socket.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()
        await cancel_and_wait(list(self._links.values()))

    # what is there

    @property
    def url(self) -> str:
        """Where the guest dials, with the port that was chosen."""
        return str(self._socket.endpoint)

    @property
    def target(self) -> str:
        """What is dialled for the connections to come; may be set."""
        return str(self._target)

    @target.setter
    def target(self, address: str) -> None:
        self._target = _parse_endpoint("target", address)

    @property
    def links(self) -> list[BridgeLink]:
        """The connections there are, oldest first."""
        return list(self._links)

    @property
    def listening(self) -> bool:
        """Whether a guest finds somebody to connect to."""
        return self._socket.is_open

    async def until(self, holds: Callable[[Counts], bool], seconds: float = 10.0) -> Counts:
        """Waits until the counts are so, and gives them. Raises TimeoutError that shows them."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not holds(self.counts):
            waiter = loop.create_future()
            self._waiters.append(waiter)
            try:
                async with asyncio.timeout_at(deadline):
                    await waiter
            except TimeoutError:
                raise TimeoutError(f"after {seconds:g} s the bridge still has {self.counts}") from None
            finally:
                with contextlib.suppress(ValueError):
                    self._waiters.remove(waiter)
        return self.counts

    async def probe(self) -> MediationReady:
        """`mediationReady` now: says whether the host listens, and neither whether this bridge does nor the guest."""
        self.counts.probes += 1
        return await readiness.probe(self.channel, self._target, self.state, self.clock)

    # life of a connection

    def _accept_guest(self, guest: socket.socket) -> None:
        self.counts.accepted += 1
        if len(self._links) >= self.capacity:
            self.counts.refused += 1
            hang_up(guest)
        elif self.host_is_down:
            self.counts.failed_dials += 1
            hang_up(guest)
        else:
            link = BridgeLink(self.counts.accepted, guest, self.clock, self._count_bytes)
            self.prepare(link)
            self._links[link] = task = asyncio.create_task(link.run(self._dial))
            task.add_done_callback(functools.partial(self._on_link_ended, link))
            self.counts.open = len(self._links)
            self.counts.most_open = max(self.counts.most_open, self.counts.open)
        self.notify_waiters()

    def prepare(self, link: BridgeLink) -> None:
        """What is done to a new connection before it is carried."""

    def _on_link_ended(self, link: BridgeLink, task: asyncio.Task[None]) -> None:
        link.close()  # a task that is cancelled before its first step has closed nothing
        if task.cancelled() or task.exception() is None:  # else it is kept, and raises when the bridge closes
            self._links.pop(link, None)
        self.counts.open = len(self._links)
        self.counts.breaks += link.tripped
        self.notify_waiters()

    async def _dial(self) -> socket.socket:
        try:
            host = await dial(self._target)
        except OSError:
            self.counts.failed_dials += 1
            raise
        self.counts.dialled += 1
        self.notify_waiters()
        return host

    def _count_bytes(self, direction: Direction, size: int) -> None:
        if direction == "to_host":
            self.counts.to_host += size
        else:
            self.counts.to_guest += size
        self.notify_waiters()

    def notify_waiters(self) -> None:
        """The counts are new; those who wait on them look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()


def _parse_endpoint(name: str, address: str) -> Endpoint:
    try:
        return parse_endpoint(address, listening=name == "listen")
    except ValueError as error:
        raise ValueError(f"{name} {error}") from error


async def cancel_and_wait(tasks: list[asyncio.Task[None]]) -> None:
    """Cancels tasks and waits for their end. Raises what one of them raised, or TimeoutError."""
    for task in tasks:
        task.cancel()
    if tasks and (late := (await asyncio.wait(tasks, timeout=_CLOSE_SECONDS))[1]):
        raise TimeoutError(f"{len(late)} tasks of the bridge did not end within {_CLOSE_SECONDS:g} s")
    for task in tasks:
        if not task.cancelled():
            task.result()
