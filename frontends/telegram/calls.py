"""Calls of the Bot API: each waits for its turn and for what Telegram asks, and follows a group that has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from telegram.error import ChatMigrated, RetryAfter

from agent_common.backoff import Backoff
from agent_common.clock import Clock

from ..platform import TemporarilyUnavailable
from .faults import translated, wait_asked
from .limiter import Limiter
from .moves import Moves

T = TypeVar("T")

MAX_WAIT_SECONDS = 30.0
"""How long a call waits for its turn, and for what Telegram asks."""
_CALL_SECONDS = 60.0
_UPLOAD_SECONDS = 300.0
_PAUSES = Backoff(first=0.1, most=5.0, jitter=0.5)


class Calls:
    """The calls of one bot. All raise PlatformError."""

    def __init__(self, token: str, clock: Clock, max_wait: float = MAX_WAIT_SECONDS) -> None:
        self._token = token
        self._clock = clock
        self._max_wait = max_wait
        self._limiter = Limiter(clock)
        self.moves = Moves()

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call that is about no chat. What Telegram asks to wait for it holds up no other call."""
        deadline = self._clock.monotonic() + self._max_wait
        while True:
            await self._limiter.wait(None, deadline=deadline)
            with translated(self._token):
                try:
                    return await _in_time(call(), _CALL_SECONDS)
                except RetryAfter as error:
                    seconds = wait_asked(error)
                    if self._clock.monotonic() + seconds > deadline:
                        raise
            await asyncio.sleep(seconds)

    async def change(self, chat: int, call: Callable[[int], Awaitable[T]], *, upload: bool = False) -> T:
        """Make a call that changes a chat, with the number that the chat has now."""
        deadline = self._clock.monotonic() + self._max_wait
        while True:
            chat = self.moves.now(chat)
            await self._limiter.wait(chat, deadline=deadline)
            with translated(self._token):
                try:
                    return await _in_time(call(chat), _UPLOAD_SECONDS if upload else _CALL_SECONDS)
                except RetryAfter as error:
                    self._limiter.close(chat, wait_asked(error))
                except ChatMigrated as error:
                    self.moves.follow(chat, error.new_chat_id)

    async def take_turn(self, chat: int) -> None:
        """Wait until the chat may be changed. The change is the next `touch`."""
        chat = self.moves.now(chat)
        await self._limiter.wait(chat, deadline=self._clock.monotonic() + self._max_wait)

    async def touch(self, chat: int, call: Callable[[int], Awaitable[T]]) -> T:
        """Make a call that needs no turn in a chat, or has taken it. Raises TemporarilyUnavailable while Telegram wants
        no calls to the chat."""
        deadline = self._clock.monotonic() + self._max_wait
        while True:
            chat = self.moves.now(chat)
            if seconds := self._limiter.closed_for(chat):
                reason = "Telegram has asked to wait with calls to this chat"
                raise TemporarilyUnavailable(reason, retry_after=seconds, refused=True)
            await self._limiter.wait(None, deadline=deadline)
            with translated(self._token):
                try:
                    return await _in_time(call(chat), _CALL_SECONDS)
                except RetryAfter as error:
                    self._limiter.close(chat, wait_asked(error))
                    raise
                except ChatMigrated as error:
                    self.moves.follow(chat, error.new_chat_id)

    async def repeat(self, chat: int, call: Callable[[int], Awaitable[T]], *, deadline: float) -> T:
        """Make a call as `touch` does, and again if it fails: its effect is the same however often it is made. One that
        may have had it is repeated when its chat may be changed again."""
        failures = 0
        while True:
            try:
                return await self.touch(chat, call)
            except TemporarilyUnavailable as error:
                failures += 1
                pause = max(error.retry_after or 0.0, _PAUSES.pause(failures))
                if self._clock.monotonic() + pause > deadline:
                    raise
                may_have_changed = not error.refused
            await asyncio.sleep(pause)
            if may_have_changed:
                await self.take_turn(chat)


async def _in_time(call: Awaitable[T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await call
