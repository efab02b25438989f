"""No message is lost, wherever the process dies: what is stored of a chat has no gaps before its newest message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_common.backoff import Backoff
from frontends.discord.arrivals import Arrivals
from frontends.platform import Chat, ChatGone, Sender, TemporarilyUnavailable, TokenRejected, Update

MINUTE = 60_000 << 22
AT_ONCE = Backoff(first=0, most=0)
Step = tuple[Literal["write", "lose", "pass", "fail"], int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "write", "lose", "pass", "pass", "fail"]), st.integers(0, 2)), max_size=40
)


def message(chat: int, number: int, *, addressed: bool = True) -> Update:
    return Update(
        id=str(number * MINUTE),
        kind="message",
        chat=Chat(str(chat), private=False),
        sender=Sender("1", "ada"),
        message_id=str(number * MINUTE),
        order=number * MINUTE,
        addressed=addressed,
    )


class World:
    """Three chats, and what of them is stored."""

    def __init__(self, most_waiting: int) -> None:
        self.written: list[Update] = []
        self.stored: list[str] = []
        self.failing = 0
        self.lost = False
        self.arrivals = Arrivals(
            self.accept,
            self.read_history,
            {str(chat): "0" for chat in range(3)},
            most_waiting=most_waiting,
            pauses=AT_ONCE,
        )

    async def accept(self, updates: Sequence[Update]) -> None:
        await asyncio.sleep(0)
        for update in updates:
            self.stored.append(update.id)
            before = [each for each in self.written if each.chat == update.chat and each.order < update.order]
            assert {each.id for each in before} <= set(self.stored), "a crash now would lose a message"

    async def read_history(self, chat: str, after: str) -> AsyncIterator[list[Update]]:
        found = [each for each in self.written if each.chat.id == chat and each.order > int(after)]
        while True:
            await asyncio.sleep(0)
            if self.failing:
                self.failing -= 1
                raise TemporarilyUnavailable("Discord answers 500")
            if not found:
                return
            page, found = found[:2], found[2:]
            yield page

    async def take(self, step: Step) -> None:
        match step:
            case ("pass", count):
                for _ in range((1, 3, 12)[count]):
                    await asyncio.sleep(0)
            case ("fail", count):
                self.failing = count
            case (kind, chat):
                update = message(chat, len(self.written) + 1)
                self.written.append(update)
                await (self.lose() if kind == "lose" else self.arrive(update))

    async def lose(self) -> None:
        self.lost = True

    async def arrive(self, update: Update) -> None:
        """After events were lost, a session begins anew before the next one comes."""
        if self.lost:
            self.lost = False
            await self.arrivals.miss()
        await self.arrivals.put(update)


async def live(steps: Sequence[Step], most_waiting: int) -> World:
    world = World(most_waiting)
    running = asyncio.create_task(world.arrivals.run())
    for step in steps:
        await world.take(step)
    await world.arrivals.miss()
    for _ in range(2000):
        if {update.id for update in world.written} == set(world.stored):
            break
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return world


@given(STEPS, st.integers(1, 5))
@settings(max_examples=300, deadline=None)
def test_nothing_is_lost_and_a_chat_has_no_gaps(steps: list[Step], most_waiting: int) -> None:
    world = asyncio.run(live(steps, most_waiting))
    assert {update.id for update in world.written} == set(world.stored)


async def test_a_message_that_found_no_room_is_read_later_also_in_a_new_chat() -> None:
    first, second = message(7, 1), message(8, 2)
    stored: list[str] = []

    async def accept(updates: Sequence[Update]) -> None:
        stored.extend(update.id for update in updates)

    async def read_history(chat: str, after: str) -> AsyncIterator[list[Update]]:
        assert chat == "8"
        assert int(after) < second.order
        yield [second]

    arrivals = Arrivals(accept, read_history, {}, most_waiting=1)
    kept, dropped = await arrivals.put(first), await arrivals.put(second)
    assert dropped is None
    running = asyncio.create_task(arrivals.run())
    assert kept
    await asyncio.wait_for(kept.stored.wait(), 10)
    async with asyncio.timeout(60):
        while second.id not in stored:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("error", [ChatGone("gone"), TokenRejected("revoked")])
async def test_a_chat_that_is_gone_is_given_up_and_a_rejected_token_ends_it(error: Exception) -> None:
    stored: list[str] = []

    async def accept(updates: Sequence[Update]) -> None:
        stored.extend(update.id for update in updates)

    async def read_history(chat: str, after: str) -> AsyncIterator[list[Update]]:
        await asyncio.sleep(0)
        for nothing in ():
            yield nothing
        raise error

    arrivals = Arrivals(accept, read_history, {"7": "0"})
    await arrivals.miss()
    await arrivals.put(message(7, 1))
    running = asyncio.create_task(arrivals.run())
    async with asyncio.timeout(60):
        while not stored and not running.done():
            await asyncio.sleep(0)
    if isinstance(error, ChatGone):
        assert stored == [message(7, 1).id]
        running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled() == isinstance(error, ChatGone)


async def test_a_message_that_found_no_room_while_its_history_was_read_is_read_again() -> None:
    first, second = message(7, 1), message(7, 2)
    stored: list[str] = []
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def accept(updates: Sequence[Update]) -> None:
        stored.extend(update.id for update in updates)

    async def read_history(chat: str, after: str) -> AsyncIterator[list[Update]]:
        """The second message is written after the first reading."""
        again = reading.is_set()
        reading.set()
        await go_on.wait()
        yield [first, second] if again else [first]

    arrivals = Arrivals(accept, read_history, {"7": "0"}, most_waiting=1)
    await arrivals.miss()
    running = asyncio.create_task(arrivals.run())
    await asyncio.wait_for(reading.wait(), 10)
    assert await arrivals.put(first)
    assert await arrivals.put(second) is None
    go_on.set()
    async with asyncio.timeout(60):
        while second.id not in stored:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
