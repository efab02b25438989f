"""What people write while the bot is away is read from the histories of its chats."""

from __future__ import annotations

import asyncio
import logging

import pytest

from agent_testing.discord import Channel, FakeDiscord, Fault, User
from frontends.platform import Piece

from .conftest import Bots, chat_of, eventually


async def test_a_new_process_reads_what_was_written_after_the_newest_stored_message(
    bots: Bots, discord_: FakeDiscord, ada: User
) -> None:
    guild = discord_.guild("home", [ada])
    general = discord_.text_channel(guild, "general")
    async with bots.receiving() as receiver:
        stored = ada.write(ada.dm(), "before")
        asked = ada.write(general, "before, too", mentions=[discord_.bot])
        await receiver.until(2)
        await receiver.platform.send(chat_of(ada.dm()), Piece("an answer"), key="1")
    for number in range(250):
        ada.write(ada.dm(), f"away {number}")
    ada.write(general, "away", mentions=[discord_.bot])
    since = {str(ada.dm().id): str(stored.id), str(general.id): str(asked.id)}
    async with bots.receiving(since) as receiver:
        updates = [update for update in await receiver.until(253) if "before" not in update.text]
    private = [update.text for update in updates if update.chat.private]
    assert private == [f"away {number}" for number in range(250)]
    assert [update.text for update in updates if update.addressed and not update.chat.private] == ["away"]


@pytest.mark.slow
async def test_after_an_invalid_session_the_histories_are_read(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    async with bots.receiving() as receiver:
        ada.write(ada.dm(), "one")
        await receiver.until(1)
        discord_.faults.next(Fault("5xx"), at="GET /gateway/bot", times=1)
        discord_.invalidate_sessions(tell=False)
        for text in ("two", "three"):
            ada.write(ada.dm(), text)
        await receiver.until(3)
        ada.write(ada.dm(), "four")
        updates = await receiver.until(4)
    assert [update.text for update in updates] == ["one", "two", "three", "four"]


async def test_what_arrives_waits_for_the_history_of_its_chat_alone(
    bots: Bots, discord_: FakeDiscord, ada: User
) -> None:
    """A message that is stored marks those before it as read: a crash in between must not lose them."""
    bob = discord_.user("bob")
    old = ada.write(ada.dm(), "old")
    missed = ada.write(ada.dm(), "missed")
    discord_.faults.next(Fault("hang", seconds=60), at=f"GET /channels/{ada.dm().id}/messages")
    async with bots.receiving({str(ada.dm().id): str(old.id)}) as receiver:
        ada.write(ada.dm(), "new")
        bob.write(bob.dm(), "I am another")
        (first,) = list(await receiver.until(1))
        await eventually(lambda: [request for request in discord_.journal if request.fault == "hang"])
        discord_.faults.release()
        updates = await receiver.until(4)
    assert first.text == "I am another"
    assert [update.text for update in updates[1:]] == ["old", "missed", "new"]
    assert str(missed.id) in {update.id for update in updates}


async def test_a_chat_that_is_gone_is_left_alone(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    guild = discord_.guild("home", [ada])
    gone = discord_.text_channel(guild, "gone")
    message = ada.write(gone, "hello", mentions=[discord_.bot])
    discord_.delete_channel(gone)
    async with bots.receiving({str(gone.id): str(message.id)}) as receiver:
        await eventually(lambda: _reads(discord_, gone))
        ada.write(ada.dm(), "hello")
        await receiver.until(1)
        assert _reads(discord_, gone) == 1


def _reads(discord_: FakeDiscord, channel: Channel) -> int:
    return len([request for request in discord_.journal if str(channel.id) in request.path])


async def test_a_store_that_fails_ends_it_and_nothing_is_acknowledged(bots: Bots, ada: User) -> None:
    async def fail() -> None:
        raise OSError("the disk is full")

    async with bots.receiving() as receiver:
        receiver.before_storing = fail
        sent = await receiver.platform.send(chat_of(ada.dm()), Piece("yes or no"), key="1")
        ada.write(ada.dm(), "hello")
        await eventually(lambda: receiver.ended)
    assert sent
    assert str(receiver.ended) == "the disk is full"


@pytest.mark.slow
async def test_an_outage_is_two_lines_in_the_log(
    bots: Bots, discord_: FakeDiscord, ada: User, caplog: pytest.LogCaptureFixture
) -> None:
    async with bots.receiving() as receiver:
        discord_.faults.next(Fault("cut"), at="GET /gateway/bot", times=3)
        discord_.invalidate_sessions()
        ada.write(ada.dm(), "are you there?")
        await asyncio.to_thread(discord_.wait_for_session, seconds=60)
        ada.write(ada.dm(), "and now?")
        await receiver.until(1)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 2
    assert "cannot be reached" in lines[0]
    assert "is back after" in lines[1]
