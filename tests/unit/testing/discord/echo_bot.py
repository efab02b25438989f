"""A bot in a process of its own: `python echo_bot.py URL GATEWAY TOKEN` answers every message with its text."""

from __future__ import annotations

import sys

import discord
from discord.gateway import DiscordWebSocket
from discord.http import Route


def main(url: str, gateway: str, token: str) -> None:
    address_type = type(DiscordWebSocket.DEFAULT_GATEWAY)
    Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = url + "/api/v10", address_type(gateway)
    intents = discord.Intents.default()
    intents.message_content = True
    client = discord.Client(intents=intents, guild_ready_timeout=0.1)

    @client.event
    async def on_message(message: discord.Message) -> None:
        if not message.author.bot:
            await message.channel.send(f"{message.content}!", nonce=message.id)

    client.run(token, log_handler=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
