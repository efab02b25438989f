"""How much a server may say: what comes faster waits in the pipe, what comes without end ends the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agent_common.json_reader import JsonLimits, JsonRefused, check_cost

MESSAGE_LIMIT = 4 * 1024 * 1024
"""Bytes of one message."""
MAX_NODES = 50_000
"""Brackets and commas of one message: what it costs to understand it goes by them and not by its bytes."""
JSON_LIMITS = JsonLimits(MESSAGE_LIMIT, MAX_NODES, max_depth=200)
BURST, RATE = 4000.0, 1000.0
"""Units that may come at once, and then a second. A message is one unit, and one more for each 4 KiB."""
UNIT = 4096
MAX_NOISE_LINES = 100
"""Lines in a row that are no messages."""
MAX_REQUESTS = 100
"""Requests of the server's own that are answered, all with a refusal, in one connection."""


class LimitExceeded(Exception):
    """The server says more than it may."""


class MessageRateLimiter:
    """The allowance of one connection."""

    def __init__(
        self, now: Callable[[], float] | None = None, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._now, self._sleep = now or asyncio.get_running_loop().time, sleep
        self._left, self._at = BURST, self._now()
        self._noise = self._requests = 0

    async def throttle(self, size: int) -> None:
        """A message of so many bytes has come. Waits where that is faster than it may be."""
        now = self._now()
        self._left = min(BURST, self._left + (now - self._at) * RATE) - 1 - size / UNIT
        self._at = now
        if self._left < 0:
            await self._sleep(-self._left / RATE)

    def reset_noise(self) -> None:
        self._noise = 0

    def count_noise(self) -> None:
        """Something came that is no message: many programs print where they should not. Raises Overrun."""
        self._noise += 1
        if self._noise > MAX_NOISE_LINES:
            raise LimitExceeded(f"it prints what is no message of MCP, more than {MAX_NOISE_LINES} lines in a row")

    def count_request(self) -> None:
        """The server wants something of us. Raises Overrun."""
        self._requests += 1
        if self._requests > MAX_REQUESTS:
            raise LimitExceeded(f"it has asked for something more than {MAX_REQUESTS} times")


def check_nodes(message: bytes) -> None:
    """Raises Overrun for a message that would take long to understand."""
    try:
        check_cost(message, JSON_LIMITS)
    except JsonRefused as refusal:
        raise refusal_error(refusal) from None


def refusal_error(refusal: JsonRefused) -> LimitExceeded:
    return LimitExceeded(f"it sent a message that is refused: {refusal}")
