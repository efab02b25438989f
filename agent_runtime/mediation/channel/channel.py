"""The guest's end of the mediation channel: keeps a connection to the host, and reports its state
(docs/protocols/mediation.md#25-states-of-a-connection)."""

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
from .api_connections import ApiConnections, ServeConnection
from .attachment import ChannelAttachment
from .backoff import ReconnectBackoff
from .connection import FrameConnection
from .identity import Identity
from .side_effect_gate import ChannelGate

log = logger(__name__)
DIAL_SECONDS = 10.0
GOODBYE_SECONDS = 2.0
"""Seconds that results in transit have at shutdown."""
State = Literal["dialing", "linked", "attached", "ready", "busy", "outdated", "draining", "broken", "fenced", "closed"]


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """The state of the channel, for `/status`."""

    state: State
    required: bool
    epoch: int
    breaks: int
    """Number of connections that have ended in this process."""
    running: int
    error: str | None
    """Why the last connection ended, while there is none; else None."""


class MediationChannel:
    """Connects again and again. `start` it when the runtime is ready, `close` it at the end."""

    def __init__(
        self,
        endpoint: Endpoint,
        identity: Identity,
        work_service: WorkService,
        gate: ChannelGate,
        events: Events,
        *,
        grace: float,
        serve_api: ServeConnection | None = None,
        backoff: Callable[[], ReconnectBackoff] = ReconnectBackoff,
    ) -> None:
        """`grace`: seconds that work is held while a required channel is broken, before it ends as yielded.
        `serve_api`: serves the agent's HTTP API on connections that the host asks for; None: it is not offered."""
        self._endpoint = endpoint
        self._identity = identity
        self._work_service = work_service
        self._gate = gate
        self._events = events
        self._constraints = work_service.constraints
        self._database = work_service.database
        self._clock = work_service.clock
        self._grace = grace
        self._backoff = backoff()
        self._serve_api = serve_api
        self._state: State = "dialing"
        self._announced_state: State | None = None
        self._error: str | None = None
        self._epoch = self._breaks = 0
        self._attachment: ChannelAttachment | None = None
        self._attached_at: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._grace_task: asyncio.Task[None] | None = None
        work_service.active.on_change = self._announce_state

    async def start(self) -> None:
        """Start connecting."""
        self._epoch = await self._database.read(ledger.last_epoch)
        await self._work_service.open()
        self._on_broken()
        self._task = asyncio.create_task(self._run(), name="mediation channel")

    @property
    def status(self) -> ChannelStatus:
        return ChannelStatus(
            self.state, self._gate.required, self._epoch, self._breaks, len(self._work_service.active), self._error
        )

    @property
    def state(self) -> State:
        if self._state != "ready":
            return self._state
        if self._work_service.draining or self._work_service.paused:
            return "draining"
        if self._constraints.fault is not None:
            return "outdated"
        return "busy" if self._work_service.active else "ready"

    @property
    def ready(self) -> bool:
        """Whether work can arrive."""
        return self.state in ("ready", "busy")

    def stop_accepting(self) -> None:
        """Take no new work, because this process is shutting down."""
        self._work_service.draining = True
        self._announce_state()

    async def close(self) -> None:
        """Send the results that are ready, then close the connection."""
        await self._work_service.flush_results(GOODBYE_SECONDS)
        if self._attachment is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._attachment.connection.flush()
        for task in (self._task, self._grace_task):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._work_service.close()
        self._set_state("closed")

    async def _run(self) -> None:
        broke: str | None = None
        while True:
            self._set_state("dialing")
            try:
                link = await self._dial()
            except Exception as error:  # noqa: BLE001  any failure is followed by another attempt
                self._error = str(error) or "the host does not answer"
                attached = 0.0
            else:
                broke = self._error = await self._run_attachment(link, broke)
                attached = self._lasted()
                self._breaks += 1
                log.warning("the channel is broken", reason=broke, lasted=round(attached, 3))
            fenced = self._attachment is not None and self._attachment.fenced
            self._attachment = self._attached_at = None
            self._set_state("fenced" if fenced else "broken")
            self._on_broken()
            await asyncio.sleep(self._backoff.next_delay(attached=attached, fenced=fenced))

    async def _dial(self) -> FrameConnection:
        """Connect. The secrets are read again each time, because they change when a machine is restored."""
        redactor = await asyncio.to_thread(self._identity.redactor)
        return await FrameConnection.open(
            self._endpoint,
            self._clock,
            max_line=self._identity.max_line,
            seconds=DIAL_SECONDS,
            redactor=redactor,
            loose=self._identity.loose,
        )

    async def _run_attachment(self, connection: FrameConnection, previous_break: str | None) -> str:
        """Serve one connection and return the reason of its end."""
        self._set_state("linked")
        self._attachment = ChannelAttachment(
            connection,
            self._identity,
            self._work_service,
            self._constraints,
            api=ApiConnections(self._endpoint, self._serve_api) if self._serve_api is not None else None,
            epoch=self._epoch,
            on_attached=self._on_attached,
            on_ready=self._on_ready,
            on_epoch=self._on_epoch,
        )
        try:
            return await self._attachment.run(previous_break)
        except Exception as error:
            log.exception("the channel failed")
            return f"internal error: {error!r}"

    # -- what happens on a connection

    def _on_attached(self) -> None:
        self._attached_at = self._clock.monotonic()
        self._set_state("attached")

    def _on_ready(self) -> None:
        self._error = None
        self._gate.open()
        if self._grace_task is not None:
            self._grace_task.cancel()
            self._grace_task = None
        self._set_state("ready")

    def _on_epoch(self, epoch: int) -> asyncio.Future[None]:
        """Store the epoch. The future is done once it is stored, or could not be."""
        self._epoch = epoch
        written = self._database.write(lambda connection: ledger.save_epoch(connection, epoch))
        written.add_done_callback(_log_write_failure)
        return written

    def _on_broken(self) -> None:
        """Close the gate for side effects; after the grace period, end the host's work with partial results."""
        if self._gate.required:
            self._gate.close()
            if self._grace_task is None:
                self._grace_task = asyncio.create_task(self._stop_after_grace(), name="mediation grace")

    async def _stop_after_grace(self) -> None:
        await asyncio.sleep(self._grace)
        if self._work_service.active:
            log.warning("the channel was broken for too long: work is stopped", running=len(self._work_service.active))
        await self._work_service.stop_all("channel")

    def _lasted(self) -> float:
        return self._clock.monotonic() - self._attached_at if self._attached_at is not None else 0.0

    def _set_state(self, state: State) -> None:
        self._state = state
        self._announce_state()

    def _announce_state(self) -> None:
        """Emit an event if the state has changed since the last one."""
        state = self.state
        if state != self._announced_state:
            self._announced_state = state
            facts: dict[str, Any] = {"state": state, "error": self._error, "epoch": self._epoch}
            self._events.emit("channel-changed", None, **facts)


def _log_write_failure(written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()) is not None:
        log.warning("the epoch could not be stored", error=str(error))
