"""What the gateway delivers, on its way to the store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import discord

from ..platform import Accept, Update
from .arrivals import Arrivals
from .connection import Client, Gateway, by_name
from .copies import Copies
from .history import read_history
from .interactions import Interactions
from .updates import of_edit, of_interaction, of_message


class Reception:
    """Receives the events of one bot. discord.py calls a handler by its name, one after the other in the order of the
    events up to where it first waits."""

    def __init__(
        self,
        client: Client,
        me: int,
        accept: Accept,
        since: Mapping[str, str],
        *,
        interactions: Interactions,
        copies: Copies,
    ) -> None:
        self._me = me
        self._interactions = interactions
        self._copies = copies
        self._gateway = Gateway(client)
        self._arrivals = Arrivals(accept, lambda chat, after: read_history(client, me, chat, after), since)
        for handler in (
            *(self.on_connect, self.on_resumed, self.on_disconnect),
            *(self.on_message, self.on_raw_message_edit, self.on_interaction),
        ):
            client.event(handler)

    async def run(self) -> None:
        """Receive until it is cancelled. Raises PlatformError, and what `accept` raises."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._gateway.stay_connected())
                group.create_task(self._arrivals.run())
                group.create_task(self._copies.watch())
        except BaseExceptionGroup as group:
            error = _first(group)
            raise by_name(error) if isinstance(error, discord.DiscordException) else error from None
        finally:
            await self._interactions.aclose()

    # ---------------------------------------------------------------- events

    async def on_connect(self) -> None:
        """A new session begins: what came since the last one is in the histories only."""
        self._gateway.back()
        await self._arrivals.miss()

    async def on_resumed(self) -> None:
        self._gateway.back()

    async def on_disconnect(self) -> None:
        self._gateway.lost()

    async def on_message(self, message: discord.Message) -> None:
        if message.author.id == self._me:
            self._copies.seen(message.nonce)
        await self._put(of_message(message, self._me))

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        await self._put(of_edit(event.message, self._me))

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        update = of_interaction(interaction)
        arrival = await self._arrivals.put(update) if update else None
        if arrival:
            self._interactions.begin(interaction, arrival)

    async def _put(self, update: Update | None) -> None:
        if update:
            await self._arrivals.put(update)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(cast("BaseExceptionGroup[BaseException]", error)) if isinstance(error, BaseExceptionGroup) else error
