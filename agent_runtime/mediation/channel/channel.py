"""The guest's end of the mediation channel: dials for as long as it lives, and says how it stands (2.5, 2.7)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from agent_common.net import Endpoint
from agent_common.telemetry import logger

from ...ports import Events
from ..ledger import ledger
from ..work.work_service import WorkService
from .attachment import ChannelAttachment
from .backoff import ReconnectBackoff
from .connection import FrameConnection
from .identity import Identity
from .side_effect_gate import ChannelGate

log = logger(__name__)
DIAL_SECONDS = 10.0
GOODBYE_SECONDS = 2.0
"""For results that are on their way when this life ends."""
State = Literal["dialing", "linked", "attached", "ready", "busy", "outdated", "draining", "broken", "fenced", "closed"]


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """How the channel stands, for `/status`."""

    state: State
    required: bool
    epoch: int
    breaks: int
    """Connections that have ended in this life."""
    running: int
    error: str | None
    """Why the last connection ended, while there is none."""


class MediationChannel:
    """One connection after the other. `start` it when the runtime is warm, `close` it at the end."""

    def __init__(
        self,
        endpoint: Endpoint,
        identity: Identity,
        clerk: WorkService,
        gate: ChannelGate,
        events: Events,
        *,
        grace: float,
        pace: Callable[[], ReconnectBackoff] = ReconnectBackoff,
    ) -> None:
        """`grace`: seconds that work is held while a required channel is broken, before it ends as yielded."""
        self._endpoint, self._me, self._clerk, self._gate, self._events = endpoint, identity, clerk, gate, events
        self._constraints, self._database, self._clock = clerk.constraints, clerk.database, clerk.clock
        self._grace, self._pace = grace, pace()
        self._state: State = "dialing"
        self._told: State | None = None
        self._error: str | None = None
        self._epoch = self._breaks = 0
        self._attachment: ChannelAttachment | None = None
        self._attached_at: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._giving_up: asyncio.Task[None] | None = None
        clerk.changed = self._tell

    async def start(self) -> None:
        """Dials from now on."""
        self._epoch = await self._database.read(ledger.last_epoch)
        await self._clerk.open()
        self._broken()
        self._task = asyncio.create_task(self._run(), name="mediation channel")

    @property
    def status(self) -> ChannelStatus:
        return ChannelStatus(self.state, self._gate.required, self._epoch, self._breaks, self._clerk.busy, self._error)

    @property
    def state(self) -> State:
        if self._state != "ready":
            return self._state
        if self._clerk.draining or self._clerk.paused:
            return "draining"
        if self._constraints.fault is not None:
            return "outdated"
        return "busy" if self._clerk.busy else "ready"

    @property
    def ready(self) -> bool:
        """Whether work can come."""
        return self.state in ("ready", "busy")

    def stop_taking(self) -> None:
        """This life ends: no new work."""
        self._clerk.draining = True
        self._tell()

    async def close(self) -> None:
        """Lets results go out that are ready, then ends the connection."""
        await self._clerk.told(GOODBYE_SECONDS)
        if self._attachment is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._attachment.link.flushed()
        for task in (self._task, self._giving_up):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._clerk.close()
        self._set("closed")

    async def _run(self) -> None:
        broke: str | None = None
        while True:
            self._set("dialing")
            try:
                link = await self._dial()
            except Exception as error:  # noqa: BLE001  whatever it is, it is tried again
                self._error = str(error) or "the host does not answer"
                attached = 0.0
            else:
                broke = self._error = await self._attend(link, broke)
                attached = self._lasted()
                self._breaks += 1
                log.warning("the channel is broken", reason=broke, lasted=round(attached, 3))
            fenced = self._attachment is not None and self._attachment.fenced
            self._attachment = self._attached_at = None
            self._set("fenced" if fenced else "broken")
            self._broken()
            await asyncio.sleep(self._pace.wait(attached=attached, fenced=fenced))

    async def _dial(self) -> FrameConnection:
        """A restored machine has its secrets anew: they are read for each connection."""
        veil = await asyncio.to_thread(self._me.veil)
        return await FrameConnection.open(
            *(self._endpoint, self._clock),
            max_line=self._me.max_line,
            seconds=DIAL_SECONDS,
            veil=veil,
            loose=self._me.loose,
        )

    async def _attend(self, link: FrameConnection, broke: str | None) -> str:
        """One connection; why it ended."""
        self._set("linked")
        self._attachment = ChannelAttachment(
            *(link, self._me, self._clerk, self._constraints),
            epoch=self._epoch,
            on_attached=self._on_attached,
            on_ready=self._on_ready,
            on_epoch=self._on_epoch,
        )
        try:
            return await self._attachment.run(broke)
        except Exception as error:
            log.exception("the channel failed")
            return f"the runtime failed: {error!r}"

    # -- what happens on a connection

    def _on_attached(self) -> None:
        self._attached_at = self._clock.monotonic()
        self._set("attached")

    def _on_ready(self) -> None:
        self._error = None
        self._gate.open()
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        self._set("ready")

    def _on_epoch(self, epoch: int) -> asyncio.Future[None]:
        """Done once it is kept, or cannot be."""
        self._epoch = epoch
        written = self._database.write(lambda connection: ledger.keep_epoch(connection, epoch))
        written.add_done_callback(_noted)
        return written

    def _broken(self) -> None:
        """Nothing more takes effect; after the grace, what the host has given us ends with what there is of it."""
        if self._gate.required:
            self._gate.close()
            if self._giving_up is None:
                self._giving_up = asyncio.create_task(self._give_up(), name="mediation grace")

    async def _give_up(self) -> None:
        await asyncio.sleep(self._grace)
        if self._clerk.busy:
            log.warning("the channel was broken for too long: work is stopped", running=self._clerk.busy)
        await self._clerk.stop_all("channel")

    def _lasted(self) -> float:
        return self._clock.monotonic() - self._attached_at if self._attached_at is not None else 0.0

    def _set(self, state: State) -> None:
        self._state = state
        self._tell()

    def _tell(self) -> None:
        """Says so when the state is another one than was last told."""
        state = self.state
        if state != self._told:
            self._told = state
            facts: dict[str, Any] = {"state": state, "error": self._error, "epoch": self._epoch}
            self._events.emit("channel-changed", None, **facts)


def _noted(written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()) is not None:
        log.warning("the epoch could not be kept", error=str(error))
