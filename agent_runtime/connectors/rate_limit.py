"""Limit the messages of a server. A server that is too fast is read more slowly; one that exceeds a limit is cut
off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agent_common.json_reader import JsonLimits, JsonRefused, check_cost

MESSAGE_LIMIT = 4 * 1024 * 1024
"""Most bytes of one message."""
MAX_NODES = 200_000
"""Most brackets and commas of one message. The cost of parsing depends on them rather than on the bytes. A list of as
many tools as are kept, with fifteen parameters each, has a third of that."""
JSON_LIMITS = JsonLimits(MESSAGE_LIMIT, MAX_NODES, max_depth=200)
BURST = 4000.0
RATE = 1000.0
"""Units that may come at once, and units each second afterwards. A message costs one unit, and one for each 4 KiB."""
UNIT = 4096
MAX_NOISE_LINES = 100
"""Most consecutive lines that are not messages."""
MAX_REQUESTS = 100
"""Most requests from the server at once, pings aside. All of them are refused."""
REQUEST_RATE = 1.0
"""Requests that may come in each second afterwards: a connection may live for days, and servers ask at every call."""


MAX_STREAMS = 10
"""Streams that may be opened at once, and one each second afterwards: a server says how soon it wants the next one."""


class LimitExceeded(Exception):
    """The server has exceeded a limit."""


class MessageRateLimiter:
    """The rate limit of one connection."""

    def __init__(
        self, now: Callable[[], float] | None = None, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._now = now or asyncio.get_running_loop().time
        self._sleep = sleep
        self._left = BURST
        self._at = self._now()
        self._noise = 0
        self._requests = float(MAX_REQUESTS)
        self._asked_at = self._at
        self._streams = float(MAX_STREAMS)
        self._opened_at = self._at

    async def throttle(self, size: int) -> None:
        """Count a message of `size` bytes, and wait if the server is too fast."""
        now = self._now()
        self._left = min(BURST, self._left + (now - self._at) * RATE) - 1 - size / UNIT
        self._at = now
        if self._left < 0:
            await self._sleep(-self._left / RATE)

    async def throttle_stream(self) -> None:
        """Count a stream that is opened again, and wait if that is too often."""
        now = self._now()
        self._streams = min(MAX_STREAMS, self._streams + now - self._opened_at) - 1
        self._opened_at = now
        if self._streams < 0:
            await self._sleep(-self._streams)

    def reset_noise(self) -> None:
        self._noise = 0

    def count_noise(self) -> None:
        """Count a line that is not a message, as many programs print to stdout. Raises LimitExceeded if there are too
        many."""
        self._noise += 1
        if self._noise > MAX_NOISE_LINES:
            raise LimitExceeded(f"it prints what is no message of MCP, more than {MAX_NOISE_LINES} lines in a row")

    def count_request(self) -> None:
        """Count a request from the server. Raises LimitExceeded if there are too many."""
        now = self._now()
        self._requests = min(MAX_REQUESTS, self._requests + (now - self._asked_at) * REQUEST_RATE) - 1
        self._asked_at = now
        if self._requests < 0:
            raise LimitExceeded(f"it has asked for something more than {MAX_REQUESTS} times")


def check_nodes(message: bytes) -> None:
    """Raise LimitExceeded if a message would take too long to parse."""
    try:
        check_cost(message, JSON_LIMITS)
    except JsonRefused as refusal:
        raise refusal_error(refusal) from None


def refusal_error(refusal: JsonRefused) -> LimitExceeded:
    return LimitExceeded(f"it sent a message that is refused: {refusal}")
