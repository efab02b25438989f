"""What the bot sends: messages, buttons, files, and each of them once."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from agent_testing.discord import FakeDiscord, Fault, Message, User
from frontends.discord import DiscordPlatform
from frontends.platform import Button, Chat, ChatGone, MessageGone, Piece, PlatformError, TemporarilyUnavailable

from .conftest import Bots, chat_of

DECISION = ((Button("Once", "a:1:once"), Button("Reject", "a:1:reject")),)


def message(discord_: FakeDiscord, number: str) -> Message:
    return next(each for each in discord_.messages if str(each.id) == number)


async def test_a_message_with_buttons_is_sent_changed_and_deleted(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    chat = chat_of(ada.dm())
    written = ada.write(ada.dm(), "hello")
    async with bots.open() as platform:
        number = await platform.send(chat, Piece("May I?", DECISION), key="1", reply_to=str(written.id))
        sent = message(discord_, number)
        assert (sent.content, sent.reply_to) == ("May I?", written)
        assert [(each.label, each.custom_id) for each in sent.buttons] == [
            ("Once", "a:1:once"),
            ("Reject", "a:1:reject"),
        ]
        await platform.edit(chat, number, Piece("Allowed"))
        await platform.edit(chat, number, Piece("Allowed"))
        assert (sent.content, sent.buttons) == ("Allowed", [])
        await platform.delete(chat, number)
        await platform.delete(chat, number)
    assert sent.deleted


async def test_nobody_is_notified_by_what_a_model_writes(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    guild = discord_.guild("home", [ada])
    general = discord_.text_channel(guild, "general")
    asked = ada.write(general, "say hello to all", mentions=[discord_.bot])
    async with bots.open() as platform:
        number = await platform.send(
            chat_of(general), Piece(f"@everyone @here {ada.mention}"), key="1", reply_to=str(asked.id)
        )
        await platform.edit(chat_of(general), number, Piece(f"@everyone {ada.mention} again"))
    sent = message(discord_, number)
    assert list(sent.notified) == []
    assert not sent.mentions_everyone


async def test_addresses_in_a_message_are_not_fetched_for_a_preview(
    bots: Bots, discord_: FakeDiscord, ada: User
) -> None:
    async with bots.open() as platform:
        number = await platform.send(chat_of(ada.dm()), Piece("https://example.com/?q=secret"), key="1")
    assert message(discord_, number).flags & 4


@pytest.mark.parametrize("how", ["cut-after", "5xx-after"])
async def test_a_message_is_sent_once_although_the_answer_was_lost(
    bots: Bots, discord_: FakeDiscord, ada: User, how: str
) -> None:
    async with bots.open() as platform:
        discord_.faults.next(Fault(how), at="POST /channels/.*/messages")  # type: ignore[arg-type]
        with suppress(TemporarilyUnavailable):
            await platform.send(chat_of(ada.dm()), Piece("hello"), key="1")
    async with bots.open() as platform:
        number = await platform.send(chat_of(ada.dm()), Piece("hello"), key="1")
    assert [str(each.id) for each in ada.dm().messages] == [number]


async def test_a_message_is_found_that_an_earlier_process_sent(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    chat, written = chat_of(ada.dm()), ada.write(ada.dm(), "hello")
    async with bots.open() as platform:
        first = await platform.send(chat, Piece("the first"), key="1")
        second = await platform.send(chat, Piece("the second", DECISION), key="2")
    ada.write(ada.dm(), "the second")
    async with bots.open() as platform:
        assert await platform.find(chat, Piece("the second", DECISION), key="2", after=str(written.id)) == second
        assert await platform.find(chat, Piece("the third"), key="3", after=str(written.id)) is None
        assert await platform.find(chat, Piece("the first"), key="1", after="") == first
        assert await platform.find(chat, Piece("the first"), key="1", after="", known={first}) is None
        assert await platform.find(chat, Piece("the first"), key="1", after=second) is None


async def test_a_message_that_is_found_shows_the_piece_of_now(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    chat, written = chat_of(ada.dm()), ada.write(ada.dm(), "hello")
    async with bots.open() as platform:
        assert platform.newest(chat) is None
        number = await platform.send(chat, Piece("one"), key="1")
        assert platform.newest(chat) == number
        assert await platform.find(chat, Piece("one two", DECISION), key="1", after=str(written.id)) == number
    sent = message(discord_, number)
    assert (sent.content, len(sent.buttons)) == ("one two", 2)


async def test_a_file_is_sent(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    async with bots.open() as platform:
        number = await platform.send_file(chat_of(ada.dm()), "result.txt", b"42", key="1", caption="the result")
        again = await platform.send_file(chat_of(ada.dm()), "result.txt", b"42", key="1", caption="the result")
        plain = await platform.send_file(chat_of(ada.dm()), "more.txt", b"43", key="2")
        assert await platform.find(chat_of(ada.dm()), Piece(""), key="2", after=number, file=True) == plain
    sent = message(discord_, number)
    assert (sent.content, sent.attachments[0].name, sent.attachments[0].data) == ("the result", "result.txt", b"42")
    assert again == number
    assert message(discord_, plain).content == ""


async def test_typing_is_shown(bots: Bots, ada: User, discord_: FakeDiscord) -> None:
    async with bots.open() as platform:
        await platform.show_typing(chat_of(ada.dm()))
    assert ada.dm().typing == [discord_.bot]


# ---------------------------------------------------------------- refusals


async def _send(platform: DiscordPlatform, chat: Chat) -> None:
    await platform.send(chat, Piece("hello"), key="1")


async def test_a_chat_that_cannot_be_written_to_any_more_is_named(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    guild = discord_.guild("home", [ada])
    deleted, hidden, read_only = (discord_.text_channel(guild, name) for name in ("deleted", "hidden", "read-only"))
    ada.dm()
    async with bots.open() as platform:
        discord_.delete_channel(deleted)
        hidden.hidden = read_only.read_only = True
        ada.close_dms()
        for channel in (deleted, hidden, ada.dm()):
            with pytest.raises(ChatGone):
                await _send(platform, chat_of(channel))
        with pytest.raises(PlatformError, match="Send Messages in Threads"):
            await _send(platform, chat_of(read_only))


async def test_a_message_that_was_deleted_is_named(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    async with bots.open() as platform:
        chat = chat_of(ada.dm())
        number = await platform.send(chat, Piece("hello"), key="1")
        await platform.delete(chat, number)
        with pytest.raises(MessageGone):
            await platform.edit(chat, number, Piece("hello again"))


async def test_a_short_rate_limit_is_waited_for_and_a_long_one_is_told(
    bots: Bots, discord_: FakeDiscord, ada: User
) -> None:
    async with bots.open() as platform:
        discord_.faults.next(Fault("429", seconds=0.1), at="POST /channels")
        await _send(platform, chat_of(ada.dm()))
        discord_.faults.next(Fault("429", seconds=600), at="POST /channels")
        with pytest.raises(TemporarilyUnavailable) as told:
            await platform.send(chat_of(ada.dm()), Piece("hello"), key="2")
    assert told.value.refused
    assert told.value.retry_after == pytest.approx(600, abs=1)


async def test_a_lost_network_is_told(discord_: FakeDiscord, bots: Bots, ada: User) -> None:
    async with bots.open() as platform:
        discord_.faults.next(Fault("cut"), at="POST /channels")
        with pytest.raises(TemporarilyUnavailable):
            await _send(platform, chat_of(ada.dm()))
        await asyncio.wait_for(_send(platform, chat_of(ada.dm())), 10)
