"""The REST routes: what each does with a request that has passed the limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..world import errors, payloads
from ..world.entities import JSON, Bot, Channel, Message, Upload
from ..world.state import World

Answer = JSON | list[JSON] | None
"""None is 204 without a body."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request, read and authorized. Its handler runs under the lock of the world."""

    world: World
    bot: Bot
    parameters: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    uploads: Sequence[Upload]
    interaction_seconds: float

    def number(self, name: str) -> int:
        """An id of the path. Raises Refused."""
        text = self.parameters[name]
        if not text.isdecimal() or len(text) > 20:
            raise errors.invalid_form([name], "NUMBER_TYPE_COERCE", f'Value "{text}" is not snowflake.')
        return int(text)

    def integer(self, name: str, default: int) -> int:
        """A number of the query. Raises Refused."""
        text = self.query.get(name, str(default))
        if not text.isdecimal() or len(text) > 20:
            raise errors.invalid_form([name], "NUMBER_TYPE_COERCE", f'Value "{text}" is not int.')
        return int(text)

    def channel(self) -> Channel:
        return self.world.channel(self.number("channel_id"), self.bot)

    def message(self) -> Message:
        return self.world.message(self.channel(), self.number("message_id"))

    def shown(self, message: Message) -> JSON:
        """The message as this bot sees it."""
        body = payloads.message(message, self.bot, contents=self.bot.message_content)
        return body | ({"nonce": message.nonce} if message.nonce is not None else {})


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    handler: Callable[[Call], Answer]
    group: str = "others"
    """The field of `RateLimits` that it is counted by."""
    status: int = 200
    no_token: Callable[[], errors.Refused] | None = None
    """What an unknown token gets, if the path has the token of an interaction and the headers none of a bot."""
