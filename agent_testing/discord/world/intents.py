"""Gateway intents: which events a session asks for."""

from __future__ import annotations

from .entities import Bot

GUILDS = 1 << 0
GUILD_MEMBERS = 1 << 1
GUILD_PRESENCES = 1 << 8
GUILD_MESSAGES = 1 << 9
GUILD_MESSAGE_REACTIONS = 1 << 10
GUILD_MESSAGE_TYPING = 1 << 11
DIRECT_MESSAGES = 1 << 12
DIRECT_MESSAGE_REACTIONS = 1 << 13
DIRECT_MESSAGE_TYPING = 1 << 14
MESSAGE_CONTENT = 1 << 15
ALL = (1 << 17) - 1 | 1 << 20 | 1 << 21 | 1 << 24 | 1 << 25


def refused(bot: Bot, wanted: int) -> bool:
    """Whether the application has not been granted a privileged intent that it asks for."""
    granted = (MESSAGE_CONTENT if bot.message_content else 0) | (GUILD_MEMBERS if bot.members else 0)
    privileged = MESSAGE_CONTENT | GUILD_MEMBERS | GUILD_PRESENCES
    return bool(wanted & privileged & ~granted)


def application_flags(bot: Bot) -> int:
    """The flags of an unverified application that is granted privileged intents."""
    return (1 << 19 if bot.message_content else 0) | (1 << 15 if bot.members else 0)
