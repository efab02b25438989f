"""Discord: bots by its gateway and REST API, through discord.py."""

from .platform import DiscordPlatform

__all__ = ["DiscordPlatform"]
