"""Streams that are taken up again after they broke."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from time import monotonic
from typing import TypeVar

from agent_common.backoff import Backoff

from ..errors import ClientError, DeadlineExceeded
from .problems import pause_before_retry

T = TypeVar("T")
RECONNECT_SECONDS = 120.0
"""How long a server may be away before a stream is given up."""
FIRST_SECONDS = 6.0
"""The same before the first item: the address may be wrong."""
_BACKOFF = Backoff(first=0.05, most=5.0, jitter=0.5)


async def resumed(
    read: Callable[[], AsyncGenerator[T]], *, deadline: float, within: float = RECONNECT_SECONDS
) -> AsyncGenerator[T]:
    """Yield what `read` yields, and call it again whenever its connection breaks: it must then leave out what it has
    yielded before. Ends when `read` ends by itself. Raises ClientError if nothing comes for `within` seconds of
    attempts, DeadlineExceeded at `deadline` on the monotonic clock.

    Not by stamina, which leaves no way to start counting anew whenever a stream has made progress.
    """
    failures, patient_until, first = 0, 0.0, True
    while True:
        try:
            async with aclosing(read()) as items:
                while (item := await _next_before(items, deadline)) is not None:
                    failures, first = 0, False
                    yield item[0]
            return
        except ClientError as error:
            wait = pause_before_retry(error)
            if failures == 0:
                patient_until = monotonic() + (FIRST_SECONDS if first else within)
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
