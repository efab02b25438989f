"""Answers to presses and slash commands: Discord tells the person that the bot failed if there is none in 3 seconds."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

import discord
from discord.http import HTTPClient, Route

from ..platform import MessageGone, PlatformError
from .arrivals import Arrival
from .connection import ALREADY_ACKNOWLEDGED, named
from .copies import Copies

_log = logging.getLogger(__name__)
_STORE_SECONDS = 1.5
"""Storing may take this long before the person is shown that the bot is at it."""
_FIRST_TRY_SECONDS = 1.0
"""discord.py waits longer than this before it repeats a call."""
_KEPT = 1000
_EPHEMERAL = discord.MessageFlags(ephemeral=True).value
_TOO_LATE = {10015, 10062, 50027}
"""Codes for an interaction that is over: unknown webhook, unknown interaction, its token is not valid any more."""


class Interactions:
    """Acknowledges what has been stored."""

    def __init__(self, http: HTTPClient, copies: Copies) -> None:
        self._http = http
        self._copies = copies
        self._answering: dict[str, asyncio.Task[None]] = {}
        """By the token of the interaction."""
        self._begun: deque[int] = deque(maxlen=_KEPT)

    def begin(self, interaction: discord.Interaction, arrival: Arrival) -> None:
        """Have an interaction acknowledged as soon as its update is on disk; nothing happens if it comes again."""
        if interaction.id in self._begun:
            return
        self._begun.append(interaction.id)
        task = asyncio.create_task(self._acknowledge(interaction, arrival))
        self._answering[interaction.token] = task
        task.add_done_callback(lambda _: self._answering.pop(interaction.token, None))

    async def aclose(self) -> None:
        """Leave the rest unanswered: Discord tells these people that the bot failed."""
        answering = list(self._answering.values())
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)

    async def _acknowledge(self, interaction: discord.Interaction, arrival: Arrival) -> None:
        press = interaction.type is discord.InteractionType.component
        noted = _message(f"`{arrival.update.text}`")
        stored: dict[str, Any] = {"type": 6} if press else {"type": 4, "data": noted}
        working: dict[str, Any] = {"type": 6} if press else {"type": 5, "data": {"flags": _EPHEMERAL}}
        try:
            if await _is_stored_soon(arrival):
                return await self._answer(interaction, stored)
            await self._answer(interaction, working)
            await arrival.stored.wait()
            if not press:
                await self._change(interaction, noted)
        except PlatformError as error:
            _log.warning("A press or command on Discord is stored, but not acknowledged: %s", error)

    async def tell(self, application: int, token: str, text: str) -> None:
        """Send a text that only the person sees who pressed the button; nothing happens if it is too late."""
        if token in self._answering:
            await asyncio.wait([self._answering[token]])
        route = Route("POST", "/webhooks/{webhook_id}/{webhook_token}", webhook_id=application, webhook_token=token)
        await self._call(route, _message(text))

    async def _answer(self, interaction: discord.Interaction, answer: dict[str, Any]) -> None:
        route = Route(
            "POST",
            "/interactions/{webhook_id}/{webhook_token}/callback",
            webhook_id=interaction.id,
            webhook_token=interaction.token,
        )
        await self._call(route, answer)

    async def _change(self, interaction: discord.Interaction, message: dict[str, Any]) -> None:
        route = Route(
            "PATCH",
            "/webhooks/{webhook_id}/{webhook_token}/messages/@original",
            webhook_id=interaction.application_id,
            webhook_token=interaction.token,
        )
        await self._call(route, message)

    async def _call(self, route: Route, body: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with named():
                await self._http.request(route, json=body)
        except PlatformError as error:
            code = getattr(error.__cause__, "code", None)
            if code == ALREADY_ACKNOWLEDGED:
                if loop.time() - begun < _FIRST_TRY_SECONDS:
                    self._copies.sign()
            elif code not in _TOO_LATE and not isinstance(error, MessageGone):
                raise


async def _is_stored_soon(arrival: Arrival) -> bool:
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            return await arrival.stored.wait()
    except TimeoutError:
        return False


def _message(text: str) -> dict[str, Any]:
    """A message that only this person sees, and that mentions nobody."""
    return {"content": text[:2000], "flags": _EPHEMERAL, "allowed_mentions": {"parse": []}}
