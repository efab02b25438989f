"""What was written in a chat while the bot was away."""

from __future__ import annotations

from collections.abc import AsyncIterator

import discord

from ..platform import Update
from .connection import Client, named
from .updates import of_message

_PAGE = 100


async def read_history(client: Client, me: int, chat: str, after: str) -> AsyncIterator[list[Update]]:
    """Yield what people wrote after a message, oldest first."""
    async with named():
        channel = client.get_channel(int(chat)) or await client.fetch_channel(int(chat))
    if not isinstance(channel, discord.abc.Messageable):
        return
    while True:
        async with named():
            start = discord.Object(int(after))
            page = [message async for message in channel.history(limit=_PAGE, after=start, oldest_first=True)]
        if updates := [update for message in page if (update := of_message(message, me))]:
            yield updates
        if len(page) < _PAGE:
            return
        after = str(page[-1].id)
