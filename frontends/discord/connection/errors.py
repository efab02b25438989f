"""Discord's refusals by the names of the port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import discord

from ...platform import ChatGone, MessageGone, PlatformError, TemporarilyUnavailable, TokenRejected

CALL_SECONDS = 60.0
"""A call waits this long at most for an answer, the waits for rate limits included."""
ALREADY_ACKNOWLEDGED = 40060

_CHAT_GONE = {
    10003,  # unknown channel
    50001,  # the bot may not see the channel (any more)
    50007,  # the person takes no messages of the bot
    50083,  # the thread is archived and locked
    50278,  # the person and the bot share no server (any more)
}
_MESSAGE_GONE = {
    10008,  # unknown message
    30046,  # too many edits of a message that is older than an hour
    50005,  # another one's message
}
_UNKNOWN_BOT = "Discord does not accept the bot's token: copy a new one from the developer portal"
_INTENT_MISSING = (
    "Discord does not give this bot the text of messages: switch on 'Message Content Intent' under Bot, Privileged "
    "Gateway Intents, in the developer portal"
)


@asynccontextmanager
async def named(seconds: float | None = CALL_SECONDS) -> AsyncGenerator[None]:
    """Raise what Discord refuses by the port's names, and TemporarilyUnavailable after a time without an answer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        raise by_name(error) from error
    except RuntimeError as error:  # aiohttp's: the session was closed meanwhile
        raise TemporarilyUnavailable("the bot is being closed", refused=True) from error


def by_name(error: Exception) -> PlatformError:
    """Return the port's error for one of discord.py, or of the network."""
    match error:
        case discord.LoginFailure():
            return TokenRejected(_UNKNOWN_BOT)
        case discord.PrivilegedIntentsRequired():
            return PlatformError(_INTENT_MISSING)
        case discord.ConnectionClosed(code=4004):
            return TokenRejected(_UNKNOWN_BOT)
        case discord.ConnectionClosed():
            return PlatformError(f"Discord closed the gateway with {error.code}")
        case discord.RateLimited():
            return TemporarilyUnavailable(
                f"Discord asks to wait for {error.retry_after:.0f} s", retry_after=error.retry_after, refused=True
            )
        case discord.HTTPException():
            return _of_answer(error)
        case discord.DiscordException():
            return PlatformError(f"discord.py cannot do this: {error}")
        case _:
            refused = isinstance(error, aiohttp.ClientConnectorError)
            return TemporarilyUnavailable(f"Discord cannot be reached: {type(error).__name__}", refused=refused)


def _of_answer(error: discord.HTTPException) -> PlatformError:
    answer = f"{error.status}, code {error.code}: {error.text[:200]}"
    if error.status == 401:
        return TokenRejected(_UNKNOWN_BOT)
    if error.status == 429 or error.status >= 500:
        return TemporarilyUnavailable(f"Discord answers {error.status}", refused=error.status == 429)
    if error.code in _CHAT_GONE:
        return ChatGone(f"the chat is gone for this bot ({answer})")
    if error.code in _MESSAGE_GONE:
        return MessageGone(f"the message is gone, or cannot be changed ({answer})")
    if error.code == 50013:
        return PlatformError(
            "the bot lacks a permission here: it needs View Channel, Send Messages, Send Messages in Threads, Attach "
            f"Files and Read Message History ({answer})"
        )
    return PlatformError(f"Discord refuses this ({answer})")
