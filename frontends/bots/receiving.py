"""Keeps a bot connected to its platform until the platform refuses it for good."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from agent_common.backoff import Backoff
from agent_common.telemetry import logger

from ..conversation import Bot
from ..platform import Accept, AnotherCopy, Command, PlatformError, TemporarilyUnavailable, TokenRejected
from ..store import Database, last_messages_in, moves_in

log = logger(__name__)
BACKOFF = Backoff(1.0, 60.0, jitter=0.5)
MAX_PAUSE_SECONDS = 600.0
"""The longest pause that a platform can ask for."""
LONG_SECONDS = 60.0
"""A connection that lasted this long was no failure."""


async def receive_updates(
    bot: Bot, database: Database, accept: Accept, commands: Sequence[Command], *, backoff: Backoff = BACKOFF
) -> None:
    """Receive until the platform refuses the bot, which is logged, or until it is cancelled."""
    failures = 0
    while True:
        begin = time.monotonic()
        try:
            await bot.platform.open(commands)
            log.info("bot connected", bot=bot.name, platform=bot.platform.name)
            since = await database.run(partial(last_messages_in, bot=bot.name))
            await bot.platform.receive(accept, since, await database.run(partial(moves_in, bot=bot.name)))
            pause = None
        except TokenRejected:
            log.error("bot ended: the platform does not accept its token", bot=bot.name, platform=bot.platform.name)
            return
        except AnotherCopy:
            log.error("bot ended: another process receives its updates; stop that one", bot=bot.name)
            return
        except TemporarilyUnavailable as error:
            log.warning("platform unavailable", bot=bot.name, reason=str(error))
            pause = error.retry_after
        except PlatformError as error:
            log.error("the platform refuses the bot", bot=bot.name, reason=str(error))
            pause = None
        except Exception:
            log.exception("receiving failed", bot=bot.name)
            pause = None
        failures = 1 if time.monotonic() - begin > LONG_SECONDS else failures + 1
        await asyncio.sleep(backoff.pause(failures) if pause is None else min(pause, MAX_PAUSE_SECONDS))
