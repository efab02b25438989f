"""Beginning, ending, and what ends a bot for good."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from agent_testing.discord import FakeDiscord, Fault, RateLimits, User
from frontends.discord import DiscordPlatform
from frontends.discord.connection import Client, Gateway
from frontends.platform import AnotherCopy, Button, Piece, PlatformError, TemporarilyUnavailable, TokenRejected, Update

from .conftest import COMMANDS, Bots, chat_of, eventually


async def test_the_commands_are_registered(bots: Bots, discord_: FakeDiscord) -> None:
    async with bots.open():
        pass
    new, model = discord_.bot.commands
    assert (new["name"], new["description"]) == ("new", "Begin a new conversation")
    assert model["options"][0]["name"] == "name_of_the_model"
    assert not model["options"][0]["required"]


async def test_an_unknown_token_is_named(discord_: FakeDiscord) -> None:
    platform = DiscordPlatform("another-token", discord_.url)
    with pytest.raises(TokenRejected) as told:
        await platform.open(COMMANDS)
    assert "another-token" not in str(told.value)
    with pytest.raises(TemporarilyUnavailable, match="open it first"):
        await platform.send(chat_of(discord_.user("ada").dm()), Piece("hello"), key="1")
    await platform.aclose()


async def test_a_revoked_token_ends_it(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    async with bots.receiving() as receiver:
        discord_.revoke()
        await eventually(lambda: receiver.ended)
        with pytest.raises(TemporarilyUnavailable):
            await receiver.platform.send(chat_of(ada.dm()), Piece("hello"), key="1")
    assert isinstance(receiver.ended, TokenRejected)


async def test_a_token_that_is_revoked_while_the_bot_is_away_ends_it(bots: Bots, discord_: FakeDiscord) -> None:
    async with bots.open() as platform:
        discord_.revoke()
        with pytest.raises(TokenRejected):
            await asyncio.wait_for(platform.receive(_forget, {}), 20)


async def test_a_call_that_runs_while_the_bot_is_closed_can_be_repeated(
    bots: Bots, discord_: FakeDiscord, ada: User
) -> None:
    async with bots.open() as platform:
        discord_.faults.next(Fault("5xx"), at="POST /channels")
        call = asyncio.create_task(platform.send(chat_of(ada.dm()), Piece("hello"), key="1"))
        await eventually(lambda: [request for request in discord_.journal if request.status == 502])
        await platform.aclose()
        with pytest.raises(TemporarilyUnavailable):
            await call


async def test_a_missing_intent_is_named(bots: Bots, discord_: FakeDiscord) -> None:
    discord_.bot.message_content = False
    async with bots.open() as platform:
        with pytest.raises(PlatformError, match="Message Content Intent"):
            await asyncio.wait_for(platform.receive(_forget, {}), 20)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["GET /gateway/bot", "CONNECT gateway"])
async def test_an_attempt_that_hangs_is_given_up(
    discord_: FakeDiscord, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    client = Client(discord_.url)
    gateway = Gateway(client, restart_after=2)

    async def on_connect() -> None:
        gateway.back()

    client.event(on_connect)
    await client.login("discord-token")
    discord_.faults.next(Fault("hang", seconds=60), at=step)
    task = asyncio.create_task(gateway.stay_connected())
    await asyncio.to_thread(discord_.wait_for_session, seconds=60)
    await eventually(lambda: len(caplog.records) == 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await client.close()
    lost, back = (record.getMessage() for record in caplog.records)
    assert "cannot be reached" in lost
    assert "is back" in back


async def test_it_can_receive_again_after_it_was_ended(bots: Bots, ada: User) -> None:
    async with bots.open() as platform:
        for text in ("one", "two"):
            received: asyncio.Queue[Update] = asyncio.Queue()

            async def keep(updates: Sequence[Update], received: asyncio.Queue[Update] = received) -> None:
                for update in updates:
                    received.put_nowait(update)

            task = asyncio.create_task(platform.receive(keep, {}))
            await asyncio.to_thread(bots.discord.wait_for_session)
            ada.write(ada.dm(), text)
            assert (await asyncio.wait_for(received.get(), 20)).text == text
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await eventually(lambda: bots.discord.connected == 0)


@pytest.mark.slow
async def test_it_ends_whenever_it_is_cancelled(bots: Bots) -> None:
    """Also in the moment in which a connection gets ready."""
    async with bots.open() as platform:
        for tenths in range(400):
            task = asyncio.create_task(platform.receive(_forget, {}))
            await asyncio.sleep(0.004 + tenths % 160 / 10_000)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=60)
            assert done


async def test_two_bots_have_addresses_of_their_own(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    with FakeDiscord(token="another-token", limits=RateLimits.loose()) as elsewhere:
        eve = elsewhere.user("eve")
        other = DiscordPlatform("another-token", elsewhere.url + "/api/v10/")
        async with bots.receiving() as receiver:
            await other.open(COMMANDS)
            await other.send(chat_of(eve.dm()), Piece("hello, eve"), key="1")
            await receiver.platform.send(chat_of(ada.dm()), Piece("hello, ada"), key="1")
            await other.aclose()
        assert [message.content for message in eve.dm().messages] == ["hello, eve"]
    assert [message.content for message in ada.dm().messages] == ["hello, ada"]


async def test_the_token_is_in_no_log(
    bots: Bots, discord_: FakeDiscord, ada: User, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with bots.receiving() as receiver:
        ada.write(ada.dm(), "hello")
        await receiver.until(1)
        await receiver.platform.send(chat_of(ada.dm()), Piece("hello"), key="1")
        discord_.revoke()
        await eventually(lambda: receiver.ended)
    assert "discord-token" not in caplog.text
    assert "discord-token" not in f"{receiver.platform!r} {receiver.ended!r}"


async def test_two_copies_of_a_bot_notice_each_other(bots: Bots, ada: User) -> None:
    """The second sign counts, after the time in which messages of an earlier process may still arrive."""
    async with bots.receiving() as receiver, bots.open() as copy:
        await copy.send(chat_of(ada.dm()), Piece("hello"), key="early")
        await receiver.platform.send(chat_of(ada.dm()), Piece("hello"), key="own")
        bots.clock.advance(60)
        for number in range(2):
            await copy.send(chat_of(ada.dm()), Piece("hello"), key=str(number))
        await eventually(lambda: receiver.ended)
    assert isinstance(receiver.ended, AnotherCopy)


async def test_two_copies_that_acknowledge_the_same_presses_notice_it(bots: Bots, ada: User) -> None:
    buttons = ((Button("Once", "a:1:once"),),)
    async with bots.receiving() as one, bots.receiving() as two:
        await eventually(lambda: bots.discord.connected == 2)
        bots.clock.advance(60)
        await one.platform.send(chat_of(ada.dm()), Piece("May I?", buttons), key="1")
        while not (one.ended or two.ended):
            await asyncio.to_thread(ada.press(ada.dm().messages[0], "Once").wait, 20)
    assert isinstance(one.ended or two.ended, AnotherCopy)


async def _forget(updates: Sequence[Update]) -> None:
    pass
