"""A bot on the double of Discord, without conversations: what it receives is kept in a list."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from agent_testing import ManualClock
from agent_testing.discord import Channel, FakeDiscord, RateLimits, User
from frontends.discord import DiscordPlatform
from frontends.platform import Chat, Command, Update

COMMANDS = (Command("new", "Begin a new conversation"), Command("model", "Choose a model", "Name of the model"))


def chat_of(channel: Channel) -> Chat:
    return Chat(str(channel.id), channel.kind == "dm", channel.name)


@dataclass(slots=True)
class Receiver:
    """A running bot, and what it has passed on."""

    platform: DiscordPlatform
    updates: list[Update] = field(default_factory=list[Update])
    before_storing: Callable[[], Awaitable[None]] | None = None
    """Called before updates are stored: it may wait, or fail."""
    ended: BaseException | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def accept(self, updates: Sequence[Update]) -> None:
        if self.before_storing:
            await self.before_storing()
        known = {update.id for update in self.updates}
        self.updates += [update for update in updates if update.id not in known]
        self._changed.set()

    async def until(self, count: int) -> list[Update]:
        """Wait for so many updates."""
        async with asyncio.timeout(60):
            while len(self.updates) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.updates

    async def receive(self, since: Mapping[str, str]) -> None:
        try:
            await self.platform.receive(self.accept, since)
        except Exception as error:  # noqa: BLE001 - tests look at it
            self.ended = error
            self._changed.set()


async def eventually(happened: Callable[[], object], seconds: float = 60) -> None:
    """Wait for something that nothing announces."""
    async with asyncio.timeout(seconds):
        while not happened():
            await asyncio.sleep(0.01)


class Bots:
    """Starts bots, as a new process would."""

    def __init__(self, discord_: FakeDiscord) -> None:
        self.discord = discord_
        self.clock = ManualClock()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[DiscordPlatform]:
        platform = DiscordPlatform("discord-token", self.discord.url, clock=self.clock)
        try:
            await platform.open(COMMANDS)
            yield platform
        finally:
            await platform.aclose()

    @asynccontextmanager
    async def receiving(self, since: Mapping[str, str] | None = None) -> AsyncGenerator[Receiver]:
        async with self.open() as platform:
            receiver = Receiver(platform)
            task = asyncio.create_task(receiver.receive(since or {}))
            try:
                await asyncio.to_thread(self.discord.wait_for_session)
                yield receiver
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


@pytest.fixture
def discord_() -> Iterator[FakeDiscord]:
    with FakeDiscord(limits=RateLimits.loose()) as fake:
        yield fake
        assert not fake.violations


@pytest.fixture(autouse=True)
def no_errors_in_the_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A handler of an event that fails is told in the log only."""
    yield
    errors = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert [error.getMessage() for error in errors if error.name.startswith(("frontends", "asyncio"))] == []


@pytest.fixture
def bots(discord_: FakeDiscord) -> Bots:
    return Bots(discord_)


@pytest.fixture
def ada(discord_: FakeDiscord) -> User:
    return discord_.user("ada")
