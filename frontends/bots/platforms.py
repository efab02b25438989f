"""Makes the platforms that are configured. The library of a platform takes memory, so only these are imported."""

from __future__ import annotations

from ..platform import Platform
from ..settings import BotSettings


def make_platform(bot: BotSettings) -> Platform:
    """Return the bot's platform, which is not connected yet. Raises PlatformError."""
    token = bot.token.get_secret_value()
    if bot.platform == "telegram":
        from ..telegram import TelegramPlatform

        return TelegramPlatform(token, bot.base_url)
    from ..discord import DiscordPlatform

    return DiscordPlatform(token, bot.base_url)
