"""What the bot sends is shown, changed and deleted, within Telegram's limits and over its faults."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing

import pytest

from agent_testing.telegram import FakeTelegram, FaultKind, TelegramLimits
from agent_testing.telegram import User as Person
from frontends.platform import (
    Button,
    Chat,
    ChatGone,
    Command,
    MessageGone,
    Piece,
    PlatformError,
    TemporarilyUnavailable,
    TokenRejected,
)
from frontends.telegram import TelegramPlatform

HELLO = Piece("hello", [[Button("Yes", "y"), Button("No", "n")]])


def chat_of(person: Person) -> Chat:
    return Chat(str(person.id), private=True)


async def open_and_close(token: str, address: str) -> None:
    async with aclosing(TelegramPlatform(token, address)) as bot:
        await bot.open([])


@pytest.fixture
def ann(telegram: FakeTelegram) -> Person:
    person = telegram.create_user("Ann")
    person.write(person.chat, "hi")
    return person


@pytest.mark.slow
async def test_a_message_is_sent_changed_and_deleted(
    telegram: FakeTelegram, bot: TelegramPlatform, ann: Person
) -> None:
    number = await bot.send(chat_of(ann), HELLO, key="k")
    sent = ann.chat.visible[-1]
    assert (str(sent.id), sent.text) == (number, "hello")
    assert [[button.label for button in row] for row in sent.buttons] == [["Yes", "No"]]
    await bot.edit(chat_of(ann), number, Piece("changed"))
    assert (sent.text, sent.buttons) == ("changed", ())
    await bot.edit(chat_of(ann), number, Piece("changed"))
    assert len(sent.edits) == 1
    await bot.delete(chat_of(ann), number)
    await bot.delete(chat_of(ann), number)
    assert sent.deleted
    with pytest.raises(MessageGone):
        await bot.edit(chat_of(ann), number, Piece("again"))
    assert telegram.calls("sendMessage")[0].parameters.json("link_preview_options", "") == {"is_disabled": True}


async def test_a_piece_without_a_text_is_still_a_message(bot: TelegramPlatform, ann: Person) -> None:
    await bot.send(chat_of(ann), Piece(" \n"), key="k")
    assert ann.chat.visible[-1].text == "…"


async def test_an_answer_to_a_message_that_is_gone_is_sent_all_the_same(bot: TelegramPlatform, ann: Person) -> None:
    await bot.send(chat_of(ann), HELLO, key="k", reply_to="999")
    assert ann.chat.visible[-1].text == "hello"


@pytest.mark.slow
async def test_changes_keep_to_the_limits(telegram: FakeTelegram, bot: TelegramPlatform, ann: Person) -> None:
    bob = telegram.create_user("Bob")
    bob.write(bob.chat, "hi")
    numbers = {person: await bot.send(chat_of(person), HELLO, key="k") for person in (ann, bob)}
    edits = (
        bot.edit(chat_of(person), number, Piece(f"{turn}")) for turn in range(4) for person, number in numbers.items()
    )
    await asyncio.gather(*edits)
    assert [ann.chat.visible[-1].text, bob.chat.visible[-1].text] == ["3", "3"]
    assert telegram.violations == []


async def test_a_wait_that_telegram_asks_for_is_kept(
    telegram: FakeTelegram, bot: TelegramPlatform, ann: Person
) -> None:
    telegram.fail("sendMessage", "too_many_requests", seconds=1)
    await bot.send(chat_of(ann), HELLO, key="k")
    refused, sent = telegram.calls("sendMessage")
    assert sent.at - refused.at >= 1
    assert telegram.violations == []


@pytest.mark.slow
async def test_a_wait_that_is_too_long_is_the_callers(
    telegram: FakeTelegram, bot: TelegramPlatform, ann: Person
) -> None:
    bob = telegram.create_user("Bob")
    bob.write(bob.chat, "hi")
    telegram.fail("sendMessage", "too_many_requests", seconds=100)
    started = time.monotonic()
    for _ in range(2):
        with pytest.raises(TemporarilyUnavailable) as refused:
            await bot.send(chat_of(ann), HELLO, key="k")
        assert refused.value.refused
        assert refused.value.retry_after == pytest.approx(100, abs=10)
    await bot.send(chat_of(bob), HELLO, key="k")
    await bot.show_typing(chat_of(ann))
    assert time.monotonic() - started < 20
    assert telegram.violations == []


@pytest.mark.parametrize(
    ("kind", "status", "refused"), [("server_error", 500, False), ("html", 502, False), ("cut_after", 0, False)]
)
async def test_a_fault_is_temporary(
    telegram: FakeTelegram,
    bot: TelegramPlatform,
    ann: Person,
    kind: FaultKind,
    status: int,
    refused: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    telegram.fail("sendMessage", kind, status=status)
    with caplog.at_level(logging.DEBUG), pytest.raises(TemporarilyUnavailable) as error:
        await bot.send(chat_of(ann), HELLO, key="k")
    assert error.value.refused is refused
    assert telegram.token not in str(error.value) + caplog.text


async def test_nobody_there(telegram: FakeTelegram) -> None:
    bot = TelegramPlatform(telegram.token, "http://127.0.0.1:9")
    with pytest.raises(TemporarilyUnavailable) as error:
        await bot.open([])
    assert error.value.refused
    assert telegram.token not in str(error.value)
    await bot.aclose()


async def test_chats_that_are_gone(telegram: FakeTelegram, bot: TelegramPlatform, ann: Person) -> None:
    group = telegram.create_supergroup("Team", ann, topics=True)
    topic = group.create_topic("Bugs", ann)
    in_topic = Chat(f"{group.id}/{topic}", private=False)
    await bot.send(in_topic, HELLO, key="k")
    group.delete_topic(topic)
    ann.block()
    group_chat = Chat(str(group.id), private=False)
    for chat in (in_topic, chat_of(ann), Chat("4711", private=True)):
        with pytest.raises(ChatGone):
            await bot.send(chat, HELLO, key="k")
    group.kick(telegram.bot)
    with pytest.raises(ChatGone):
        await bot.send(group_chat, HELLO, key="k")


async def test_a_group_that_moves_is_followed(telegram: FakeTelegram, bot: TelegramPlatform, ann: Person) -> None:
    group = telegram.create_group("Team", ann)
    moved = group.migrate()
    for _ in range(2):
        await bot.send(Chat(str(group.id), private=False), HELLO, key="k")
    assert [message.text for message in moved.visible] == ["hello", "hello"]
    assert len(telegram.calls("sendMessage")) == 3


async def test_the_messages_of_a_group_that_moves_are_not_taken_for_each_other(
    telegram: FakeTelegram, bot: TelegramPlatform
) -> None:
    """A supergroup numbers its messages anew, and has its own of the same numbers."""
    group = telegram.create_group("Team", telegram.create_user("Ann"))
    chat = Chat(str(group.id), private=False)
    before = await bot.send(chat, HELLO, key="before")
    moved = group.migrate()
    after = [await bot.send(chat, Piece(text), key=text, reply_to=before) for text in "ab"]
    assert [int(one) > int(before) for one in after] == [True, True]
    assert bot.newest(chat) == after[-1]
    async with aclosing(TelegramPlatform(telegram.token, telegram.url)) as another:
        for one in (another, bot):
            for change in (one.edit(chat, before, Piece("changed")), one.delete(chat, before)):
                with pytest.raises(MessageGone):
                    await change
        assert not moved.visible[0].reply_to
        assert [message.text for message in moved.visible] == ["a", "b"]
        await another.edit(chat, after[0], Piece("c"))
        await another.delete(chat, after[1])
    assert [message.text for message in moved.visible] == ["c"]


async def test_a_press_that_is_acknowledged_too_late(
    telegram: FakeTelegram, bot: TelegramPlatform, ann: Person
) -> None:
    telegram.limits = TelegramLimits(callback_seconds=0)
    await bot.send(chat_of(ann), HELLO, key="k")
    press = ann.press(ann.chat.visible[-1], "Yes", seconds=None)
    await bot.acknowledge(press.id, "x" * 500)
    await bot.acknowledge("4711")


async def test_typing_is_shown(telegram: FakeTelegram, bot: TelegramPlatform, ann: Person) -> None:
    await bot.show_typing(chat_of(ann))
    assert [action.action for action in ann.chat.actions] == ["typing"]


async def test_commands_are_registered_for_people_and_groups(telegram: FakeTelegram, bot: TelegramPlatform) -> None:
    await bot.open([Command("new", "Start anew"), Command("model", "Choose the model", "NAME")])
    for scope in ("all_private_chats", "all_group_chats"):
        found = telegram.commands_for(f'{{"type":"{scope}"}}')
        assert found == {"new": "Start anew", "model": "Choose the model (NAME)"}


async def test_a_bot_opens_although_the_commands_cannot_be_registered_now(
    telegram: FakeTelegram, bot: TelegramPlatform
) -> None:
    telegram.fail("setMyCommands", "too_many_requests", seconds=3000, times=2)
    await bot.open([Command("new", "Start anew")])


@pytest.mark.parametrize("token", ["1:unknown", "", "no token"])
async def test_a_token_that_telegram_does_not_know(telegram: FakeTelegram, token: str) -> None:
    with pytest.raises(TokenRejected):
        await open_and_close(token, telegram.url)


async def test_the_address_may_be_the_librarys(telegram: FakeTelegram) -> None:
    for address in (f"{telegram.url}/", f"{telegram.url}/bot", f"{telegram.url}/bot/"):
        await open_and_close(telegram.token, address)


async def test_what_telegram_refuses_is_said(bot: TelegramPlatform, ann: Person) -> None:
    with pytest.raises(PlatformError, match=r"(?i)button_data_invalid"):
        await bot.send(chat_of(ann), Piece("x", [[Button("Yes", "y" * 65)]]), key="k")


async def test_a_long_text_is_sent_in_messages_and_looks_as_it_should(bot: TelegramPlatform, ann: Person) -> None:
    text = "**Bold** `code` @ann /new 👩‍👩‍👧\n\n" + "word " * 2000 + "\n\n```python\nprint()\n```"
    parts = bot.split(text)
    for part in parts:
        await bot.send(chat_of(ann), Piece(part), key="k")
    sent = ann.chat.visible[1:]
    assert len(sent) == len(parts) > 1
    assert [entity.type for message in sent for entity in message.entities] == ["bold", "code", "pre"]
    assert not any(message.detected for message in sent)
