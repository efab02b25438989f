"""Files that people sent, in chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote

from agent_common.clock import Clock

from ..platform import IncomingFile, PlatformError, TemporarilyUnavailable
from .api import TelegramBot
from .calls import Calls
from .faults import translated

DOWNLOAD_BYTES = 20 * 1024 * 1024
"""Telegram gives bots no larger files."""
_LONGEST_SECONDS = 300.0


async def download(
    bot: TelegramBot, calls: Calls, clock: Clock, token: str, file: IncomingFile
) -> AsyncGenerator[bytes]:
    """Yield the content of a file. Raises PlatformError, also if it is larger than Telegram said it could be."""
    found = await calls.ask(lambda: bot.get_file(file.reference))
    if not found.file_path or not found.file_path.startswith(bot.base_file_url):
        raise PlatformError("the server keeps files on its own disk: run the Bot API server without --local")
    address = bot.base_file_url + quote(found.file_path.removeprefix(bot.base_file_url))  # its end is from a person
    deadline = clock.monotonic() + _LONGEST_SECONDS
    received = 0
    with translated(token):
        async with aclosing(bot.stream(address)) as chunks:
            async for chunk in chunks:
                received += len(chunk)
                if received > DOWNLOAD_BYTES:
                    raise PlatformError("the file is larger than Telegram allows")
                if clock.monotonic() > deadline:
                    raise TemporarilyUnavailable("the file did not arrive in time")
                yield chunk
