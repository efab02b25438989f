"""People write while Discord fails at random and the bot is killed again and again: each message is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import pytest

from agent_testing.discord import FakeDiscord, RandomFaults, RateLimits
from frontends.discord import DiscordPlatform
from frontends.platform import Piece, TemporarilyUnavailable, Update
from tests.storm_seed import storm_seed

from .conftest import COMMANDS, eventually

PEOPLE = 6
LIVES = 8

pytestmark = pytest.mark.slow


@pytest.fixture
def stormy() -> Iterator[FakeDiscord]:
    faults = RandomFaults(
        storm_seed(),
        limited=0.03,
        failed=0.05,
        cut=0.05,
        slow=0.05,
        seconds=0.1,
        twice=0.1,
        late=0.1,
        gateway_cut=0.05,
    )
    with FakeDiscord(faults=faults, limits=RateLimits.loose()) as fake:
        yield fake


class Store:
    """What survives the bot."""

    def __init__(self) -> None:
        self.updates: dict[str, Update] = {}
        self.answered: set[str] = set()
        self.intended: set[str] = set()

    async def accept(self, updates: Sequence[Update]) -> None:
        await asyncio.sleep(0.01)
        for update in updates:
            self.updates.setdefault(update.id, update)

    def since(self) -> dict[str, str]:
        newest: dict[str, str] = {}
        for update in self.updates.values():
            newest[update.chat.id] = max(newest.get(update.chat.id, "0"), update.message_id, key=int)
        return newest


async def answer(platform: DiscordPlatform, store: Store) -> None:
    """Answer what is stored, as a conversation would: the intent to send is on disk first."""
    while True:
        for update in [each for each in store.updates.values() if each.id not in store.answered]:
            piece = Piece(f"re {update.text}")
            with suppress(TemporarilyUnavailable):
                found = None
                if update.id in store.intended:
                    found = await platform.find(update.chat, piece, key=update.id, after=update.message_id)
                store.intended.add(update.id)
                if not found:
                    await platform.send(update.chat, piece, key=update.id)
                store.answered.add(update.id)
        await asyncio.sleep(0.01)


async def live(discord_: FakeDiscord, store: Store, killed: Callable[[], bool]) -> None:
    """Run the bot until it is killed."""
    platform = DiscordPlatform("discord-token", discord_.url)
    try:
        with suppress(TemporarilyUnavailable):
            await platform.open(COMMANDS)
            work = [
                asyncio.create_task(platform.receive(store.accept, store.since())),
                asyncio.create_task(answer(platform, store)),
            ]
            await eventually(lambda: killed() or any(task.done() for task in work), seconds=120)
            for task in work:
                task.cancel()
            ends = await asyncio.gather(*work, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends
    finally:
        await platform.aclose()


@pytest.mark.timeout(300)
async def test_every_message_is_answered_once(stormy: FakeDiscord) -> None:
    people, store = [stormy.user(f"p{number}") for number in range(PEOPLE)], Store()

    def write(number: int) -> None:
        for person in people:
            person.write(person.dm(), f"{person.name} {number}")

    first = asyncio.create_task(live(stormy, store, lambda: len(store.updates) == PEOPLE))
    await asyncio.to_thread(stormy.wait_for_session, seconds=60)
    write(0)
    await first  # each chat is known before the bot is away
    for number in range(1, LIVES):
        write(2 * number - 1)
        target = len(store.answered) + number
        life = asyncio.create_task(live(stormy, store, lambda target=target: len(store.answered) >= target))
        write(2 * number)
        await life
    written = PEOPLE * (2 * LIVES - 1)
    await live(stormy, store, lambda: len(store.answered) == written)
    for person in people:
        answers = [each.content for each in person.dm().messages if each.author is stormy.bot]
        assert sorted(answers) == sorted(f"re {person.name} {number}" for number in range(2 * LIVES - 1))
