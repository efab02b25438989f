"""Answers of servers other than Discord that discord.py does not take for Discord's: it reads JSON only under the exact
media type, and waits for a rate limit only if the answer came through a proxy."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, cast

from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
from discord import HTTPException, RateLimited

from agent_common.json_reader import JsonLimits, read_json

_TRIES = 5
_ANSWER_LIMITS = JsonLimits(8 << 20, refuse_ambiguous=False)
_UNKNOWN_SECONDS = 1.0
"""For an answer that does not say how long."""


def content_of(answer: Any) -> Any:
    """Return the JSON that discord.py has left as a text; a text that is none, and all else, stays as it is."""
    if isinstance(answer, str):
        with suppress(ValueError):
            return read_json(answer.encode(), _ANSWER_LIMITS)
    return answer


def with_code(error: HTTPException) -> HTTPException:
    """Return the error with the code and the message of its body."""
    content = _object_of(error.text)
    if isinstance(code := content.get("code"), int):
        error.code = code
        error.text = str(content.get("message", ""))
    return error


class Waits:
    """A middleware of aiohttp that waits as long as the server asks for, at most `longest` seconds, and tries again."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._all_wait_until = 0.0

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        loop = asyncio.get_running_loop()
        tries = 0
        while True:
            await asyncio.sleep(self._all_wait_until - loop.time())
            answer = await handler(request)
            tries += 1
            if answer.status != 429 or "Via" in answer.headers or tries == _TRIES:
                return answer
            seconds, everywhere = await _limit_of(answer)
            if seconds > self._longest:
                raise RateLimited(seconds)
            if everywhere:
                self._all_wait_until = max(self._all_wait_until, loop.time() + seconds)
            await asyncio.sleep(seconds)


async def _limit_of(answer: ClientResponse) -> tuple[float, bool]:
    """Return how many seconds to wait, and whether all calls have to."""
    content = _object_of(await answer.text(errors="replace"))
    everywhere = content.get("global") is True or "X-RateLimit-Global" in answer.headers
    try:
        return max(float(content.get("retry_after", answer.headers.get("Retry-After"))), 0.0), everywhere
    except (TypeError, ValueError):
        return _UNKNOWN_SECONDS, everywhere


def _object_of(text: str) -> dict[str, Any]:
    content = content_of(text)
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}
