"""Post the agent's card to its host, until the host has taken it, and again when it has changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from agent_common.backoff import Backoff
from agent_common.protocol import PeerCard
from agent_common.telemetry import logger

from ..errors import MeshUnavailable
from ..ports import MeshRequest, TeamRequests

log = logger(__name__)
CHECK_SECONDS = 60.0
"""Seconds between looks at whether the card has changed."""
_BACKOFF = Backoff(first=1.0, most=60.0, jitter=0.5)


class CardPoster:
    """Runs in the background; nothing waits for it."""

    def __init__(self, team: TeamRequests, read_card: Callable[[], Awaitable[PeerCard]]) -> None:
        """`read_card`: returns what the agent can do now."""
        self._team = team
        self._read_card = read_card
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="card of the agent")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        taken: PeerCard | None = None
        failures = 0
        reported = ""
        while True:
            try:
                card = await self._read_card()
                if card != taken:
                    await self._post(card)
            except Exception as error:  # noqa: BLE001  after any error the card is posted again
                failures += 1
                if str(error) != reported:
                    # A mesh that cannot be reached is warned of by MeshCheck.
                    tell = log.info if isinstance(error, MeshUnavailable) else log.warning
                    tell("the host did not take the agent's card; it is posted again", error=str(error))
                    reported = str(error)
                await asyncio.sleep(_BACKOFF.pause(failures))
                continue
            taken = card
            failures = 0
            reported = ""
            await asyncio.sleep(CHECK_SECONDS)

    async def _post(self, card: PeerCard) -> None:
        body = card.model_dump_json().encode()
        await self._team.request(MeshRequest("POST", "/agents", body, {"content-type": "application/json"}))
