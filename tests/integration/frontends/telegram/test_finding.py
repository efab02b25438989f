"""A message whose answer was lost is found, and no other message is changed."""

from __future__ import annotations

import asyncio

import pytest

from agent_testing.telegram import FakeTelegram
from frontends.platform import Button, Chat, Piece, TemporarilyUnavailable
from frontends.telegram import TelegramPlatform

from .conftest import Inbox

PIECE = Piece("the answer", [[Button("Yes", "y")]])


async def test_the_newest_message_is_known_by_its_numbering(
    telegram: FakeTelegram, bot: TelegramPlatform, inbox: Inbox
) -> None:
    ann, bob = telegram.create_user("Ann"), telegram.create_user("Bob")
    group = telegram.create_supergroup("Team", ann)
    anns, bobs, groups = (Chat(str(number), private=number > 0) for number in (ann.id, bob.id, group.id))
    assert bot.newest(anns) is None
    ann.write(ann.chat, "hi")
    await inbox.one("hi")
    assert bot.newest(bobs) == str(ann.chat.visible[-1].id)
    number = await bot.send(anns, PIECE, key="k")
    assert bot.newest(bobs) == number
    assert bot.newest(groups) is None
    number = await bot.send_file(groups, "a.txt", b"a", key="k")
    assert bot.newest(Chat(f"{group.id}/7", private=False)) == number


async def test_the_newest_message_that_is_stored_is_known_after_a_restart(
    telegram: FakeTelegram, bot: TelegramPlatform
) -> None:
    asking = asyncio.create_task(bot.receive(Inbox().accept, {"1001": "40", "-4001": "70", "-1000000000005/3": "9"}))
    await asyncio.to_thread(telegram.wait_for, lambda: telegram.calls("getUpdates"))
    asking.cancel()
    await asyncio.wait([asking])
    assert bot.newest(Chat("1002", private=True)) == "70"
    assert bot.newest(Chat("-1000000000005", private=False)) == "9"
    assert bot.newest(Chat("-1000000000006", private=False)) is None
    assert await bot.find(Chat("1001", private=True), PIECE, key="k", after="") is None


@pytest.fixture
def chat(telegram: FakeTelegram) -> Chat:
    ann = telegram.create_user("Ann")
    ann.write(ann.chat, "hi")
    return Chat(str(ann.id), private=True)


def texts(telegram: FakeTelegram, chat: Chat) -> list[str]:
    return [message.text for one in telegram.chats if str(one.id) == chat.id for message in one.visible]


async def lose(telegram: FakeTelegram, bot: TelegramPlatform, chat: Chat, piece: Piece = PIECE) -> None:
    """Send a message whose answer does not arrive."""
    telegram.fail("sendMessage", "cut_after")
    with pytest.raises(TemporarilyUnavailable) as error:
        await bot.send(chat, piece, key="k")
    assert not error.value.refused


async def test_a_message_that_arrived_is_found(telegram: FakeTelegram, bot: TelegramPlatform, chat: Chat) -> None:
    await lose(telegram, bot, chat)
    assert await bot.find(chat, PIECE, key="k", after="1") == "2"
    assert texts(telegram, chat) == ["hi", "the answer"]


async def test_it_is_found_where_each_private_chat_has_numbers_of_its_own(
    telegram: FakeTelegram, bot: TelegramPlatform, chat: Chat
) -> None:
    """As the Bot API's documentation says, and Telegram does not do."""
    await bot.send(chat, Piece("before"), key="j")
    await lose(telegram, bot, chat)
    assert await bot.find(chat, PIECE, key="k", after="1000", known=["2"]) == "3"
    assert texts(telegram, chat) == ["hi", "before", "the answer"]


async def test_one_that_has_grown_meanwhile_becomes_what_it_should_be(
    telegram: FakeTelegram, bot: TelegramPlatform, chat: Chat
) -> None:
    await lose(telegram, bot, chat, Piece("the"))
    assert await bot.find(chat, PIECE, key="k", after="1") == "2"
    assert texts(telegram, chat) == ["hi", "the answer"]


@pytest.mark.parametrize("since", ["before", "after"])
async def test_it_is_found_in_a_group_that_has_moved(telegram: FakeTelegram, bot: TelegramPlatform, since: str) -> None:
    group = telegram.create_group("Team", telegram.create_user("Ann"))
    chat = Chat(str(group.id), private=False)
    ids = {"before": await bot.send(chat, Piece("old"), key="i")}
    moved = group.migrate()
    ids["after"] = await bot.send(chat, Piece("new"), key="j")
    await lose(telegram, bot, chat, Piece("half"))
    found = await bot.find(chat, PIECE, key="k", after=ids[since], known=[*ids.values()])
    assert found == str(int(ids["after"]) + 1)
    assert [message.text for message in moved.visible] == ["new", "the answer"]


async def test_a_group_that_has_moved_is_followed_by_a_search(telegram: FakeTelegram, bot: TelegramPlatform) -> None:
    group = telegram.create_group("Team", telegram.create_user("Ann"))
    chat = Chat(str(group.id), private=False)
    before = await bot.send(chat, Piece("old"), key="i")
    group.migrate()
    assert await bot.find(chat, PIECE, key="k", after=before, known=[before]) is None


@pytest.mark.slow
async def test_one_that_did_not_arrive_is_not_found_and_nothing_is_changed(
    telegram: FakeTelegram, bot: TelegramPlatform, chat: Chat
) -> None:
    telegram.fail("sendMessage", "cut_before")
    with pytest.raises(TemporarilyUnavailable):
        await bot.send(chat, PIECE, key="k")
    known = [await bot.send(chat, Piece("another"), key="j")]
    bob = telegram.create_user("Bob")
    bob.write(bob.chat, "hello")
    await bot.send(Chat(str(bob.id), private=True), Piece("hello Bob"), key="b")
    assert await bot.find(chat, PIECE, key="k", after="1", known=known) is None
    assert texts(telegram, chat) == ["hi", "another"]
    assert [message.text for message in bob.chat.visible] == ["hello", "hello Bob"]
    assert telegram.violations == []


@pytest.mark.slow
async def test_messages_of_other_chats_and_people_lie_between(
    telegram: FakeTelegram, bot: TelegramPlatform, chat: Chat
) -> None:
    bob = telegram.create_user("Bob")
    for number in range(40):
        bob.write(bob.chat, f"{number}")
    known = [str(message.id) for message in bob.chat.visible[:20]]
    await lose(telegram, bot, chat)
    assert await bot.find(chat, PIECE, key="k", after="1", known=known) == "42"


@pytest.mark.slow
async def test_two_that_were_lost_are_both_there_once(
    telegram: FakeTelegram, bot: TelegramPlatform, chat: Chat
) -> None:
    await lose(telegram, bot, chat, Piece("one"))
    await lose(telegram, bot, chat, Piece("two"))
    first = await bot.find(chat, Piece("one"), key="1", after="1")
    assert first is not None
    assert await bot.find(chat, Piece("two"), key="2", after="1", known=[first]) == "3"
    assert texts(telegram, chat) == ["hi", "one", "two"]


@pytest.mark.slow
async def test_a_file_is_not_taken_for_a_text_nor_a_text_for_a_file(
    telegram: FakeTelegram, bot: TelegramPlatform, chat: Chat
) -> None:
    telegram.fail("sendDocument", "cut_after")
    with pytest.raises(TemporarilyUnavailable):
        await bot.send_file(chat, "a.txt", b"a", key="f", caption="a file")
    await lose(telegram, bot, chat)
    assert await bot.find(chat, PIECE, key="k", after="1") == "3"
    assert await bot.find(chat, Piece("a file"), key="f", after="1", known=["3"], file=True) == "2"
    assert texts(telegram, chat) == ["hi", "a file", "the answer"]


@pytest.mark.slow
async def test_in_a_supergroup_numbers_are_its_own(telegram: FakeTelegram, bot: TelegramPlatform) -> None:
    ann = telegram.create_user("Ann")
    group = telegram.create_supergroup("Team", ann, topics=True)
    topic = group.create_topic("Bugs", ann)
    ann.write(group, "unseen by the bot")
    chat = Chat(f"{group.id}/{topic}", private=False)
    after = await bot.send(chat, Piece("before"), key="j")
    ann.write(group, "unseen by the bot too")
    await lose(telegram, bot, chat)
    found = await bot.find(chat, PIECE, key="k", after=after)
    assert found == str(group.visible[-1].id)
