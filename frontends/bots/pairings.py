"""Notices whom the operator has paired, which another process has done, and informs them in their chats; and whom the
operator has removed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial

from agent_common.telemetry import logger

from ..people import Paired, confirmed_in, end_pairing_in
from ..platform import Chat
from ..store import Database
from .chats import Handler

log = logger(__name__)
POLL_SECONDS = 1.0
_WELCOME = "You are paired with this bot now. Write to it, and an agent answers."
_LINKED = "You are paired with this bot now, as the same person as {principal}. Write to it, and an agent answers."


async def announce_pairings(bots: Collection[str], database: Database, handler: Handler) -> None:
    """Look for people who have been paired with bots of these names, and inform them, and for those who have been
    removed, until it is cancelled."""
    version = None
    while True:
        current = await database.foreign_version()
        if current != version:
            await handler.end_removed()
            for one in await database.run(confirmed_in):
                if one.bot in bots:
                    await _welcome(one, handler)
                log.info("person paired", bot=one.bot, identity=one.identity, principal=one.principal)
                await database.run(partial(end_pairing_in, bot=one.bot, identity=one.identity))
            version = current
        await asyncio.sleep(POLL_SECONDS)


async def _welcome(paired: Paired, handler: Handler) -> None:
    text = _WELCOME if paired.principal == paired.identity else _LINKED.format(principal=paired.principal)
    key = f"{paired.bot}-paired-{paired.identity}-{paired.expires_at}"
    await handler.tell(paired.bot, Chat(paired.chat, private=True), text, key=key)
