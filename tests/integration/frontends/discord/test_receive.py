"""What people do on Discord comes as updates, in private chats, channels and threads."""

from __future__ import annotations

import asyncio

import pytest

from agent_testing.discord import FakeDiscord, Fault, User
from frontends.discord import DiscordPlatform
from frontends.platform import IncomingFile, MessageGone, Piece, TemporarilyUnavailable

from .conftest import Bots, chat_of


async def test_a_private_message_and_its_edit(bots: Bots, ada: User) -> None:
    async with bots.receiving() as receiver:
        written = ada.write(ada.dm(), "hello")
        ada.edit(written, "hello there")
        message, edit = await receiver.until(2)
    assert (message.kind, message.text, message.chat) == ("message", "hello", chat_of(ada.dm()))
    assert (message.sender.id, message.sender.name, message.addressed) == (str(ada.id), "ada", True)
    assert message.id == message.message_id == str(written.id)
    assert (edit.kind, edit.text, edit.message_id) == ("edit", "hello there", message.id)
    assert edit.id != message.id
    assert edit.order > message.order


async def test_in_a_guild_it_is_meant_for_the_bot_if_it_is_named_or_answered(
    bots: Bots, discord_: FakeDiscord, ada: User
) -> None:
    guild = discord_.guild("home", [ada])
    general = discord_.text_channel(guild, "general")
    async with bots.receiving() as receiver:
        ada.write(general, "nice weather")
        ada.write(general, "what is the time?", mentions=[discord_.bot])
        sent = await receiver.platform.send(chat_of(general), Piece("five"), key="1")
        reply = next(message for message in general.messages if str(message.id) == sent)
        ada.write(general, "thanks", reply_to=reply)
        thread = ada.start_thread(general, "clocks")
        ada.write(thread, "and here?", mentions=[discord_.bot])
        updates = await receiver.until(4)
    assert [(each.text, each.addressed) for each in updates] == [
        ("nice weather", False),
        ("what is the time?", True),
        ("thanks", True),
        ("and here?", True),
    ]
    assert updates[2].reply_to == sent
    assert [each.chat.id for each in updates] == [str(general.id)] * 3 + [str(thread.id)]
    assert not any(each.chat.private for each in updates)
    assert updates[3].chat.title == "clocks"


async def test_the_names_of_other_people_are_readable(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    bob = discord_.user("bob")
    general = discord_.text_channel(discord_.guild("home", [ada, bob]), "general")
    async with bots.receiving() as receiver:
        ada.write(general, f"does {bob.mention} know?", mentions=[discord_.bot])
        (update,) = await receiver.until(1)
    assert update.text == "does @bob know?"


async def test_other_bots_are_not_heard(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    async with bots.receiving() as receiver:
        await receiver.platform.send(chat_of(ada.dm()), Piece("I am the bot"), key="1")
        ada.write(ada.dm(), "hello")
        (update,) = await receiver.until(1)
    assert update.text == "hello"


async def test_a_file_is_named_and_fetched(bots: Bots, ada: User) -> None:
    data = bytes(range(256)) * 1000
    async with bots.receiving() as receiver:
        ada.write(ada.dm(), "look", attachments=[("table.csv", data)])
        (update,) = await receiver.until(1)
        (file,) = update.files
        fetched = await _content(receiver.platform, file)
    assert (file.name, file.size, update.text) == ("table.csv", len(data), "look")
    assert fetched == data


async def test_updates_of_a_chat_keep_their_order_over_what_comes_twice_and_late(
    bots: Bots, discord_: FakeDiscord, ada: User
) -> None:
    discord_.faults.next_event("late", times=1)
    discord_.faults.next_event("twice", times=10)
    async with bots.receiving() as receiver:
        for number in range(10):
            ada.write(ada.dm(), str(number))
        updates = await receiver.until(10)
    assert sorted(updates, key=lambda update: update.order) == sorted(updates, key=lambda update: int(update.text))


async def test_a_slash_command_is_a_message(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    general = discord_.text_channel(discord_.guild("home", [ada]), "general")
    async with bots.receiving() as receiver:
        plain = ada.command("new")
        given = ada.command("model", channel=general, name_of_the_model="large")
        first, second = await receiver.until(2)
        await asyncio.to_thread(plain.wait)
        await asyncio.to_thread(given.wait_for_message)
    assert (first.kind, first.text, first.chat.private, first.addressed) == ("message", "/new", True, True)
    assert (second.text, second.chat.id, second.addressed) == ("/model large", str(general.id), True)
    assert [message.content for message in ada.ephemeral] == ["`/new`", "`/model large`"]
    assert general.messages == []


@pytest.mark.parametrize("how", ["cut", "reconnect"])
async def test_what_was_sent_while_the_connection_was_away_is_replayed(
    bots: Bots, discord_: FakeDiscord, ada: User, how: str
) -> None:
    async with bots.receiving() as receiver:
        ada.write(ada.dm(), "one")
        await receiver.until(1)
        _ = discord_.cut_gateway() if how == "cut" else discord_.ask_to_reconnect()
        ada.write(ada.dm(), "two")
        await receiver.until(2)
    assert [update.text for update in receiver.updates] == ["one", "two"]


async def test_a_file_that_is_gone_or_cut_is_told(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    async with bots.receiving() as receiver:
        written = ada.write(ada.dm(), "look", attachments=[("table.csv", b"1,2")])
        (update,) = await receiver.until(1)
        for fault in (Fault("5xx"), Fault("cut")):
            discord_.faults.next(fault, at="GET /attachments", times=2 if fault.how == "cut" else 1)
            with pytest.raises(TemporarilyUnavailable):
                await _content(receiver.platform, update.files[0])
        assert await _content(receiver.platform, update.files[0]) == b"1,2"
        ada.delete(written)
        with pytest.raises(MessageGone):
            await _content(receiver.platform, update.files[0])


async def _content(platform: DiscordPlatform, file: IncomingFile) -> bytes:
    return b"".join([chunk async for chunk in platform.download(file)])
