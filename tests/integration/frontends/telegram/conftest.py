"""A bot on the double of Telegram."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from agent_testing.telegram import FakeTelegram
from frontends.platform import Platform, Update
from frontends.telegram import TelegramPlatform

T = TypeVar("T")


class Inbox:
    """Takes updates, as the store does, and lets a test wait for them."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self._changed = asyncio.Condition()

    async def accept(self, updates: Sequence[Update]) -> None:
        async with self._changed:
            self.updates += updates
            self._changed.notify_all()

    async def wait(self, holds: Callable[[], T]) -> T:
        async with asyncio.timeout(60), self._changed:
            return await self._changed.wait_for(holds)

    async def one(self, text: str) -> Update:
        """Wait for the update with this text."""
        found = await self.wait(lambda: [update for update in self.updates if update.text == text])
        return found[0]


@pytest.fixture
def telegram() -> Iterator[FakeTelegram]:
    with FakeTelegram() as telegram:
        yield telegram


@pytest.fixture
async def bot(telegram: FakeTelegram) -> AsyncIterator[TelegramPlatform]:
    bot = TelegramPlatform(telegram.token, telegram.url)
    platform: Platform = bot  # the type checker compares it with the port
    yield bot
    await platform.aclose()


@asynccontextmanager
async def receiving(bot: TelegramPlatform, inbox: Inbox) -> AsyncGenerator[None]:
    """Fill the inbox for the length of a block."""
    task = asyncio.create_task(bot.receive(inbox.accept, {}))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()


@pytest.fixture
async def inbox(bot: TelegramPlatform) -> AsyncIterator[Inbox]:
    """What the bot receives, for the length of a test."""
    inbox = Inbox()
    async with receiving(bot, inbox):
        yield inbox
