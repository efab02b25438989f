"""The client of discord.py as the bot needs it: few events, nothing cached, and an address of its own."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import aiohttp
import discord

from agent_common.net import public_tls

from .address import Wire
from .events import guard

_RATE_LIMIT_SECONDS = 30.0
"""discord.py waits this long at most for a rate limit, then the caller is told."""

_log = logging.getLogger(__name__)
# What matters is logged here: one line for an outage, not one with a traceback for each attempt.
logging.getLogger("discord").setLevel(logging.CRITICAL)

_APPLICATION = {
    "name": "",
    "description": "",
    "icon": None,
    "bot_public": False,
    "bot_require_code_grant": False,
    "verify_key": "",
}
Handler = Callable[..., Awaitable[None]]


def _intents() -> discord.Intents:
    intents = discord.Intents.none()
    intents.guilds = intents.guild_messages = intents.dm_messages = intents.message_content = True
    return intents


class Client(discord.Client):
    """Create it in the event loop that uses it, and set the handlers `on_...` before it connects."""

    def __init__(self, base_url: str | None) -> None:
        super().__init__(
            intents=_intents(),
            member_cache_flags=discord.MemberCacheFlags.none(),
            max_messages=None,
            chunk_guilds_at_startup=False,
            guild_ready_timeout=0,  # nothing waits until all guilds are known
            max_ratelimit_timeout=_RATE_LIMIT_SECONDS,
            connector=aiohttp.TCPConnector(limit=0, ssl=public_tls()),
        )
        guard(self._connection.parsers)
        self.wire = Wire(self.http, base_url, longest_wait=_RATE_LIMIT_SECONDS)

    async def application_info(self) -> discord.AppInfo:
        """Read which application the bot belongs to. Of all that discord.py wants to know, only its id is needed; at a
        server that knows of no applications it is the bot's own, as with most bots of Discord."""
        try:
            known = await self.http.application_info()
        except discord.NotFound:
            known = {}
        user = {"id": self.user and self.user.id, "username": "", "discriminator": "0", "avatar": None}
        return discord.AppInfo(
            self._connection, cast("Any", {"id": user["id"], **_APPLICATION, "owner": user, **known})
        )

    async def on_error(self, event_method: str, /, *args: object, **kwargs: object) -> None:
        _log.exception("Discord sent an event that could not be read: %s", event_method)
