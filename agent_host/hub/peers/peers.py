"""One hub among those that share a database: signs of life by which it keeps its leases, and the others' changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from agent_common.clock import Clock

from ..agents import Agents
from ..delivery import Delivery
from ..envelope_ids import EnvelopeIds
from ..limits import HubLimits
from ..store import MOST_PEERS, Renewal, Sharing
from .follower import Follower

log = structlog.get_logger(__name__)
_KEPT_SECONDS = 300.0
"""After so long without having read changes, some may be deleted."""
_STOP_SECONDS = 20.0
_RENEWALS = 5
"""Signs of life within the time of a lease."""


class Peers:
    """Keeps the leases of this hub, and ends those of hubs that have died."""

    def __init__(
        self,
        *,
        sharing: Sharing,
        follower: Follower,
        agents: Agents,
        delivery: Delivery,
        ids: EnvelopeIds,
        clock: Clock,
        limits: HubLimits,
    ) -> None:
        self._sharing = sharing
        self._follower = follower
        self._agents = agents
        self._delivery = delivery
        self._ids = ids
        self._clock = clock
        self._limits = limits
        self._bell = sharing.doorbell()
        self._rings = asyncio.Event()
        self._bell.on_ring = self._rings.set
        self._reading = asyncio.Lock()
        self._running: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._position = 0
        self._read_at = self._held_until = clock.monotonic()
        self.on_ended: Callable[[], Awaitable[object]] = _nothing
        """Called when another hub has ended: somebody must look after its sessions."""
        delivery.may_deliver = self.holds

    def holds(self) -> bool:
        """Whether the leases of this hub are its own. From then on that they may not be, it delivers nothing."""
        return self._clock.monotonic() < self._held_until

    async def join(self) -> None:
        """Give the first sign of life, before anything is read. Raises StartError if too many hubs share the database,
        or an error of the database."""
        started = self._clock.monotonic()
        renewal = await self._sharing.renew(self._lease_ms)
        self._ids.step = MOST_PEERS
        self._ids.slot = renewal.slot
        self._position = renewal.position
        self._read_at = started
        self._held_until = started + self._limits.lease_seconds
        await self._bell.keep_open()

    def start(self) -> None:
        """Give signs of life and read changes, until the hub closes."""
        self._stopping.clear()
        loop = asyncio.get_running_loop()
        self._running = [loop.create_task(work) for work in (self._renew_for_ever(), self._read_for_ever())]

    async def stop(self) -> None:
        """Give no sign of life any more, and read nothing."""
        self._stopping.set()
        self._rings.set()
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=_STOP_SECONDS)
            for task in late:
                task.cancel()
        self._running = []
        self._bell.close()

    async def leave(self) -> None:
        """Let another hub look after what is left."""
        try:
            await self._sharing.leave()
        except Exception as error:  # noqa: BLE001  its time will be over soon
            log.warning("hub_leave_failed", why=str(error).splitlines()[0])

    @property
    def _lease_ms(self) -> int:
        return round(self._limits.lease_seconds * 1000)

    # ---------------------------------------------------------------- signs of life

    async def _renew_for_ever(self) -> None:
        pause = self._limits.lease_seconds / _RENEWALS
        while not await self._stops_within(pause):
            try:
                await self._renew()
            except Exception as error:  # noqa: BLE001  the database may be back soon
                log.error("hub_renewal_failed", why=str(error).splitlines()[0])

    async def _renew(self) -> None:
        started = self._clock.monotonic()
        renewal = await self._sharing.renew(self._lease_ms)
        self._ids.slot = renewal.slot
        had_lost = not self.holds()
        if had_lost:
            log.warning("hub_was_late", why="it gave no sign of life for longer than its lease")
            await self.read_changes()  # which tells whose lease has passed on meanwhile
        self._held_until = started + self._limits.lease_seconds
        if had_lost:
            self._deliver_again()
        await self._look_after(renewal)

    def _deliver_again(self) -> None:
        """Send what was held back."""
        for agent in tuple(self._agents):
            endpoint = self._delivery.endpoint(agent)
            if agent.is_held and endpoint is not None:
                self._delivery.attach(agent, endpoint)

    async def _look_after(self, renewal: Renewal) -> None:
        if renewal.ended:
            log.warning("hub_peers_ended", peers=list(renewal.ended))
            await self.on_ended()

    # ---------------------------------------------------------------- what the others write

    async def _read_for_ever(self) -> None:
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(self._limits.poll_seconds):
                    await self._rings.wait()
            except TimeoutError:
                await self._bell.keep_open()
            self._rings.clear()
            try:
                await self.read_changes()
            except Exception as error:  # noqa: BLE001  the next look may succeed
                log.error("hub_changes_unread", why=str(error).splitlines()[0])
                await self._stops_within(self._limits.poll_seconds)

    async def _stops_within(self, seconds: float) -> bool:
        """Wait, and return whether the hub is to end meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    async def read_changes(self) -> None:
        """Take in all that the others have written."""
        async with self._reading:
            started = self._clock.monotonic()
            if started - self._read_at > _KEPT_SECONDS:
                await self._follower.resync()
            while True:
                position, changes = await self._sharing.changes(self._position)
                if position == self._position:
                    break
                await self._follower.take_in(changes)
                self._position = position
            self._read_at = started


async def _nothing() -> None:
    return
