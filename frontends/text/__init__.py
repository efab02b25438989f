"""Text on chat platforms: the Markdown of a model becomes messages that can forge, notify and hide nothing.

for markdown in split_telegram(reply):
    message = telegram_text(markdown)
"""

from .characters import without_invisible
from .discord import DISCORD_LIMIT, discord_measure, discord_text
from .quoting import code_block, escape
from .split import Measure, split
from .telegram import TELEGRAM_LIMIT, Entity, TelegramText, telegram_measure, telegram_text

__all__ = [
    "DISCORD_LIMIT",
    "TELEGRAM_LIMIT",
    "Entity",
    "Measure",
    "TelegramText",
    "code_block",
    "discord_measure",
    "discord_text",
    "escape",
    "split",
    "split_discord",
    "split_telegram",
    "telegram_measure",
    "telegram_text",
    "without_invisible",
]


def split_telegram(markdown: str) -> list[str]:
    """Split a text into texts that `telegram_text` takes, none if it is blank. As it grows at its end, all but the last
    stay as they are."""
    return split(markdown, TELEGRAM_LIMIT, telegram_measure)


def split_discord(markdown: str) -> list[str]:
    """Split a text into texts that `discord_text` takes, none if it is blank. As it grows at its end, all but the last
    stay as they are."""
    return split(markdown, DISCORD_LIMIT, discord_measure)
