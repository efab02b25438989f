"""What a bot answers to people who are not paired with it: a code for its operator, and nothing else."""

from __future__ import annotations

from functools import partial
from hashlib import sha256

from agent_common.clock import Clock
from agent_common.telemetry import logger

from ..conversation import Bot, Later
from ..people import CODE_LIFETIME_MS, code_in, identity_of
from ..platform import ChatGone, Piece, TemporarilyUnavailable, Update
from ..store import Database

log = logger(__name__)
ANSWER_SECONDS = 60.0
"""Least time between two answers to one stranger."""
_NOT_PAIRED = "You are not paired with this bot."
INTRODUCTION = """\
You are not paired with this bot yet. Ask its operator to run

```
agent bots pair {code}
```

The code is valid for an hour."""
_TOO_MANY = "You are not paired with this bot, and too many others ask for a code. Write again in an hour."


class Strangers:
    """Answers the strangers of one bot."""

    def __init__(self, bot: Bot, database: Database, clock: Clock) -> None:
        self._bot = bot
        self._database = database
        self._clock = clock
        self._codes: dict[str, tuple[str, int]] = {}
        """By identity: the code that was shown, which the database does not hold, and when."""
        self._answered: dict[str, float] = {}

    async def answer(self, update: Update) -> None:
        """Answer an update of a stranger. Raises Later while the platform cannot be reached, and PlatformError."""
        try:
            await self._answer(update)
        except ChatGone as error:  # they have blocked the bot, which is no fault of it
            log.info("a stranger cannot be answered", bot=self._bot.name, chat=update.chat.id, error=str(error))
        except TemporarilyUnavailable as error:
            raise Later(error.retry_after or None) from error

    async def _answer(self, update: Update) -> None:
        platform = self._bot.platform
        if update.kind == "button":
            if update.interaction is not None:
                await platform.acknowledge(update.interaction, _NOT_PAIRED)
            return
        identity = identity_of(platform.name, update.sender)
        if update.chat.private and self._is_due(identity):
            code = await self._code(identity, update.chat.id)
            text = _TOO_MANY if code is None else INTRODUCTION.format(code=code)
            await platform.send(update.chat, Piece(text), key=_key_of(update, text))
            self._answered[identity] = self._clock.monotonic()

    def _is_due(self, identity: str) -> bool:
        begin = self._clock.monotonic() - ANSWER_SECONDS
        self._answered = {one: at for one, at in self._answered.items() if at > begin}
        return identity not in self._answered

    async def _code(self, identity: str, chat: str) -> str | None:
        now = self._clock.now_ms()
        self._codes = {one: (code, at) for one, (code, at) in self._codes.items() if at + CODE_LIFETIME_MS > now}
        known, at = self._codes.get(identity, (None, now))
        code = await self._database.run(
            partial(code_in, bot=self._bot.name, identity=identity, chat=chat, known=known, now=now)
        )
        if code is not None:
            self._codes[identity] = code, at if code == known else now
        return code


def _key_of(update: Update, text: str) -> str:
    """Return the key of an answer. One with another code, of another process, is another message: as a repetition of
    the first one, Discord would not show it. The code itself is not in the key."""
    return f"pairing-{update.id}-{sha256(text.encode()).hexdigest()[:8]}"
