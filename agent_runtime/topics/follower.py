"""Asks the host for what is published: all the time while a session of this agent has subscribed to something."""

from __future__ import annotations

import asyncio
import contextlib

from pydantic import ValidationError

from agent_common.backoff import Backoff
from agent_common.json_reader import JsonLimits, JsonRefused, read_json_async
from agent_common.protocol import DeliveryReceipt, Receive, TopicDeliveries
from agent_common.telemetry import logger

from ..errors import MeshUnavailable, StoreError, ToolFailure
from ..ports import MAX_MESH_BYTES, MESH_SECONDS, MeshRequest, TeamRequests
from .turns import TopicTurns

log = logger(__name__)
WAIT_SECONDS = 25.0
BUSY_SECONDS = 2.0
"""How long a question waits while a session is busy, so that it is asked again when that session takes messages."""
LOOK_SECONDS = 30.0
"""How often the host is asked while no session is known to have subscribed: somebody else may subscribe one."""
MAX_BUSY = 1000
_BACKOFF = Backoff(first=0.5, most=10.0, jitter=0.5)
_LIMITS = JsonLimits(MAX_MESH_BYTES)


class TopicFollower:
    """One question to the host after the other. What was taken is said with the next one; a question that failed is
    asked again with the same receipts."""

    def __init__(self, team: TeamRequests, wake: asyncio.Event, look_seconds: float = LOOK_SECONDS) -> None:
        """`wake`: set whenever a session may have subscribed."""
        self._team = team
        self._wake = wake
        self._look_seconds = look_seconds
        self._has_asked = False
        self._task: asyncio.Task[None] | None = None

    def start(self, turns: TopicTurns) -> None:
        self._task = asyncio.create_task(self._run(turns), name="messages of topics")

    async def close(self) -> None:
        """Stop asking. What was delivered and not taken comes to the next process."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, turns: TopicTurns) -> None:
        receipts: list[DeliveryReceipt] = []
        failures = 0
        reported = ""
        self._wake.set()  # an earlier process may have subscribed
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds):
                    await self._wake.wait()
            self._wake.clear()
            try:
                found = await self._ask(receipts, turns.busy_sessions()[:MAX_BUSY])
                taken = await self._take(turns, found)
            except Exception as error:  # noqa: BLE001  after any error the host is asked again
                failures += 1
                reported = _report(error, reported)
                self._wake.set()
                await asyncio.sleep(_BACKOFF.pause(failures))
                continue
            failures = 0
            reported = ""
            receipts = taken
            if found.subscriptions or receipts:
                self._wake.set()

    async def _take(self, turns: TopicTurns, found: TopicDeliveries) -> list[DeliveryReceipt]:
        receipts: list[DeliveryReceipt] = []
        for delivery in found.deliveries:
            receipts += await turns.take(delivery)
        if not found.deliveries:
            try:
                receipts += await turns.ended(found.subscriptions)
            except StoreError as error:
                log.warning("sessions with subscriptions could not be read", error=str(error))
        return receipts

    async def _ask(self, receipts: list[DeliveryReceipt], busy: list[str]) -> TopicDeliveries:
        """Raises MeshUnavailable and ToolFailure."""
        wait = 0.0 if not self._has_asked else BUSY_SECONDS if busy else WAIT_SECONDS
        asked = Receive(receipts=receipts, busy_sessions=busy, wait_seconds=wait)
        request = MeshRequest(
            "POST",
            "/subscriptions/deliveries",
            asked.model_dump_json().encode(),
            {"content-type": "application/json"},
            seconds=wait + MESH_SECONDS,
        )
        reply = await self._team.request(request)
        try:
            found = TopicDeliveries.model_validate(await read_json_async(reply.body, _LIMITS))
        except (JsonRefused, ValidationError) as error:
            raise ToolFailure(f"the host's answer cannot be read: {error}") from error
        self._has_asked = True
        return found


def _report(error: Exception, reported: str) -> str:
    """Log why there are no messages, unless that was just said. Returns what was said."""
    if str(error) != reported:
        if isinstance(error, MeshUnavailable | ToolFailure):
            log.info("the host does not deliver messages of topics; it is asked again", error=error.message)
        else:
            log.error("messages of topics were not taken; the host is asked again", exc_info=error)
    return str(error)
