"""What people do on Telegram reaches the bot, each thing with one id, over everything that goes wrong on the way."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, aclosing

import pytest

from agent_testing.telegram import FakeTelegram, TelegramFaults
from frontends.platform import AnotherCopy, Button, Chat, Command, Piece, TemporarilyUnavailable, TokenRejected
from frontends.telegram import TelegramPlatform

from .conftest import Inbox, receiving


async def test_messages_edits_and_presses_arrive_and_are_confirmed(
    telegram: FakeTelegram, bot: TelegramPlatform, inbox: Inbox
) -> None:
    ann = telegram.create_user("Ann")
    written = ann.write(ann.chat, "hello")
    update = await inbox.one("hello")
    assert (update.chat, update.message_id) == (Chat(str(ann.id), private=True, title="Ann"), str(written.id))
    ann.edit(written, "hello!")
    assert (await inbox.one("hello!")).kind == "edit"
    number = await bot.send(update.chat, Piece("Allow?", [[Button("Yes", "a:1:once")]]), key="k")
    sent = ann.chat.find(int(number))
    assert sent is not None
    press = ann.press(sent, "Yes", seconds=None)
    pressed = await inbox.one("a:1:once")
    assert (pressed.kind, pressed.message_id) == ("button", number)
    await bot.acknowledge(pressed.interaction or "", "Allowed")
    assert press.answer is not None
    assert press.answer.text == "Allowed"
    await asyncio.to_thread(telegram.wait_for, lambda: not telegram.pending_updates)


async def test_an_album_comes_at_once_also_if_a_poll_ends_in_the_middle_of_it(
    telegram: FakeTelegram, bot: TelegramPlatform, inbox: Inbox
) -> None:
    ann = telegram.create_user("Ann")
    group = telegram.create_group("Team", ann, bot="administrator")
    ann.send_album(group, [b"1", b"2", b"3"], caption="@helper_bot look")
    album = (await inbox.one("look")).album
    assert album is not None
    assert [(one.album, len(one.files)) for one in inbox.updates] == [(album, 1)] * 3


async def test_groups_and_topics(telegram: FakeTelegram, bot: TelegramPlatform, inbox: Inbox) -> None:
    ann = telegram.create_user("Ann")
    group = telegram.create_supergroup("Team", ann, bot="administrator", topics=True)
    topic = group.create_topic("Bugs", ann)
    ann.write(group, "nobody in particular")
    ann.write(group, "@helper_bot hello", topic=topic)
    assert not (await inbox.one("nobody in particular")).addressed
    update = await inbox.one("hello")
    assert update.addressed
    assert update.chat.id == f"{group.id}/{topic}"
    number = await bot.send(update.chat, Piece("yes?"), key="k", reply_to=update.message_id)
    sent = group.find(int(number))
    assert sent is not None
    assert (sent.topic, sent.reply_to and sent.reply_to.id) == (topic, int(update.message_id))


async def test_a_group_that_becomes_a_supergroup_stays_the_same_chat(
    telegram: FakeTelegram, bot: TelegramPlatform, inbox: Inbox
) -> None:
    ann = telegram.create_user("Ann")
    group = telegram.create_group("Team", ann)
    ann.write(group, "@helper_bot one")
    before = await inbox.one("one")
    number = await bot.send(before.chat, Piece("Allow?", [[Button("Yes", "old")]]), key="k")
    supergroup = group.migrate()
    ann.write(supergroup, "@helper_bot two")
    after = await inbox.one("two")
    assert after.chat == before.chat
    assert int(after.message_id) > int(number)
    later = await bot.send(after.chat, Piece("Allow?", [[Button("Yes", "new")]]), key="l", reply_to=after.message_id)
    sent = supergroup.replies[-1]
    assert (sent.reply_to and sent.reply_to.text) == "@helper_bot two"
    for message, data, message_id in ((group.replies[-1], "old", number), (sent, "new", later)):
        ann.press(message, "Yes", seconds=None)
        pressed = await inbox.one(data)
        assert (pressed.chat.id, pressed.message_id) == (before.chat.id, message_id)


async def test_a_move_is_known_after_a_restart(telegram: FakeTelegram, bot: TelegramPlatform) -> None:
    ann = telegram.create_user("Ann")
    group = telegram.create_supergroup("Team", ann, topics=True)
    topic = group.create_topic("Bugs", ann)
    inbox = Inbox()
    since = {"-4001": "1000000000009"}
    task = asyncio.create_task(bot.receive(inbox.accept, since, {str(group.id): "-4001"}))
    ann.write(group, "@helper_bot one")
    assert (await inbox.one("one")).chat.id == "-4001"
    assert bot.newest(Chat("-4001/7", private=False)) == "1000000000009"
    ann.write(group, "@helper_bot two", topic=topic)
    assert (await inbox.one("two")).chat.id == f"-4001/{topic}"
    task.cancel()
    await asyncio.wait([task])


async def test_a_webhook_is_removed_and_its_updates_are_not_lost(telegram: FakeTelegram, bot: TelegramPlatform) -> None:
    ann = telegram.create_user("Ann")
    ann.write(ann.chat, "before")
    await bot._calls.ask(lambda: bot._bot.set_webhook("https://example.org/hook"))
    inbox = Inbox()
    async with receiving(bot, inbox):
        await inbox.one("before")


@pytest.mark.slow
async def test_updates_survive_faults_in_their_order_by_id(telegram: FakeTelegram) -> None:
    telegram.faults = TelegramFaults(
        seed=7, duplicates=0.3, reorders=0.5, late=0.2, cut_polls=0.3, server_errors=0.1, html=0.1, cuts_after=0.1
    )
    inbox = Inbox()
    people = [telegram.create_user(f"P{number}") for number in range(4)]
    platform = TelegramPlatform(telegram.token, telegram.url, poll_seconds=1)
    async with aclosing(platform) as bot, receiving(bot, inbox):
        for number in range(10):
            for person in people:
                person.write(person.chat, f"{person.name} {number}")
            await inbox.wait(lambda number=number: len({update.id for update in inbox.updates}) > 4 * number)
        await inbox.wait(lambda: len({update.id for update in inbox.updates}) == 40)
    by_id = {update.id: update for update in inbox.updates}
    for person in people:
        mine = sorted((one for one in by_id.values() if one.sender.id == str(person.id)), key=lambda one: one.order)
        assert [one.text for one in mine] == [f"{person.name} {number}" for number in range(10)]


@pytest.mark.slow
async def test_an_outage_ends_by_itself(
    telegram: FakeTelegram, bot: TelegramPlatform, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    ann = telegram.create_user("Ann")
    with caplog.at_level(logging.DEBUG):
        telegram.fail("getUpdates", "html", times=2, status=404)
        telegram.fail("getUpdates", "cut_before", times=1)
        ann.write(ann.chat, "still there?")
        await inbox.one("still there?")
        await inbox.wait(lambda: True)
    assert telegram.token not in caplog.text
    assert "still there?" not in caplog.text


async def test_a_server_without_the_method_for_commands_will_do(
    telegram: FakeTelegram, bot: TelegramPlatform, inbox: Inbox
) -> None:
    telegram.fail("setMyCommands", "server_error", status=404)
    await bot.open([Command("new", "Begin a new conversation")])
    ann = telegram.create_user("Ann")
    ann.write(ann.chat, "hello")
    await inbox.one("hello")


async def test_a_revoked_token_is_named(telegram: FakeTelegram, bot: TelegramPlatform) -> None:
    inbox = Inbox()
    await bot.open([])
    telegram.revoke_token()
    with pytest.raises(TokenRejected) as error:
        await bot.receive(inbox.accept, {})
    assert telegram.token not in str(error.value)


@pytest.mark.slow
async def test_another_copy_that_stays_is_named(telegram: FakeTelegram) -> None:
    inbox = Inbox()
    async with AsyncExitStack() as stack:
        copies = [TelegramPlatform(telegram.token, telegram.url, conflict_seconds=2) for _ in range(2)]
        for copy in copies:
            stack.push_async_callback(copy.aclose)
        with pytest.raises(AnotherCopy):
            await asyncio.wait_for(asyncio.gather(*(copy.receive(inbox.accept, {}) for copy in copies)), 30)


async def test_a_new_copy_takes_over_from_one_that_is_ending(telegram: FakeTelegram) -> None:
    inbox = Inbox()
    async with aclosing(TelegramPlatform(telegram.token, telegram.url)) as new:
        async with aclosing(TelegramPlatform(telegram.token, telegram.url)) as old, receiving(old, inbox):
            await asyncio.to_thread(telegram.wait_for, lambda: telegram.calls("getUpdates"))
            starting = asyncio.create_task(new.receive(inbox.accept, {}))
            await asyncio.to_thread(telegram.wait_for, lambda: len(telegram.calls("getUpdates")) >= 3)
        ann = telegram.create_user("Ann")
        ann.write(ann.chat, "hello")
        await inbox.one("hello")
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()


@pytest.mark.slow
async def test_a_bot_that_starts_before_telegram_can_be_reached() -> None:
    with FakeTelegram() as first:
        port, token = int(first.url.rpartition(":")[2]), first.token
    inbox = Inbox()
    async with aclosing(TelegramPlatform(token, f"http://127.0.0.1:{port}")) as bot, receiving(bot, inbox):
        with pytest.raises(TemporarilyUnavailable):
            await bot.open([])
        with FakeTelegram(port=port) as telegram:
            ann = telegram.create_user("Ann")
            ann.write(ann.chat, "hello")
            await inbox.one("hello")
