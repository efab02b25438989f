"""Streams that are taken up again after they broke."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from time import monotonic
from typing import TypeVar

from agent_common.backoff import Backoff

from ..errors import ClientError, DeadlineExceeded, NotRunning
from .problems import pause_before_retry

T = TypeVar("T")
RECONNECT_SECONDS = 120.0
"""How long a server may be away before a stream is given up."""
FIRST_SECONDS = 6.0
"""The same before the server has answered once: the address may be wrong."""
POLL_SECONDS = 20.0
"""How long a server may keep a request for something that has not come yet."""
FIRST_POLL_SECONDS = 0.1
"""The same for the first one: its answer shows that the address is right."""
_BACKOFF = Backoff(first=0.05, most=5.0, jitter=0.5)


async def resumed(
    read: Callable[[], AsyncGenerator[T | None]], *, deadline: float, within: float = RECONNECT_SECONDS
) -> AsyncGenerator[T]:
    """Yield what `read` yields, and call it again whenever its connection breaks: it must then leave out what it has
    yielded before, and yield None when the server has answered, which is not passed on. Ends when `read` ends by
    itself. Raises ClientError if the server, or the agent behind it, is away for `within` seconds, DeadlineExceeded at
    `deadline` on the monotonic clock.

    Only items shorten the pauses, because a server may answer and break off each time. Not by stamina, which leaves no
    way to start counting anew whenever a stream has made progress.
    """
    failures = 0
    patient_until = 0.0
    first = True
    answered = True
    while True:
        try:
            async with aclosing(read()) as items:
                while (found := await _next_before(items, deadline)) is not None:
                    first = False
                    answered = True
                    item = found[0]
                    if item is not None:
                        failures = 0
                        yield item
            return
        except ClientError as error:
            wait = pause_before_retry(error)
            if wait is None and isinstance(error, NotRunning) and not first:
                wait = 0.0  # it did run: its host starts again what has died
            if answered:
                patient_until = monotonic() + (FIRST_SECONDS if first else within)
                answered = False
            pause = max(wait or 0.0, _BACKOFF.pause(failures) if failures else 0.0)  # at once the first time
            failures += 1
            if wait is None or monotonic() + pause > min(patient_until, deadline):
                raise
            await asyncio.sleep(pause)


async def _next_before(items: AsyncGenerator[T], deadline: float) -> tuple[T] | None:
    """Return the next item in a tuple; None at the end."""
    try:
        async with asyncio.timeout(max(deadline - monotonic(), 0.0)):
            return (await anext(items),)
    except StopAsyncIteration:
        return None
    except TimeoutError as error:
        if isinstance(error, ClientError):
            raise
        raise DeadlineExceeded("the stream was followed for as long as it may be") from error
