"""The fake Telegram as python-telegram-bot sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from telegram import Bot, BotCommand, BotCommandScopeAllGroupChats, InlineKeyboardButton, InlineKeyboardMarkup
from telegram.constants import ChatAction, ChatMemberStatus, ParseMode
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)
from telegram.ext import Updater

from agent_testing import FakeTelegram, TelegramFaults
from agent_testing.telegram import FaultKind, User
from tests.unit.testing.telegram.api import acquainted


@pytest.fixture
async def bot(telegram: FakeTelegram, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bot]:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")  # else the library warns of its own next version
    base, files = f"{telegram.url}/bot", f"{telegram.url}/file/bot"
    async with Bot(telegram.token, base_url=base, base_file_url=files) as bot:
        yield bot


@pytest.fixture
def ann(telegram: FakeTelegram) -> User:
    return acquainted(telegram)


async def test_a_conversation(telegram: FakeTelegram, bot: Bot, ann: User) -> None:
    assert bot.username == "helper_bot"
    await bot.set_my_commands([BotCommand("new", "Begin")], scope=BotCommandScopeAllGroupChats())
    assert telegram.commands_for('{"type":"all_group_chats"}') == {"new": "Begin"}
    (update,) = await bot.get_updates(timeout=5)
    assert update.effective_user
    assert update.message
    assert (update.effective_user.first_name, update.message.text) == ("Ann", "/start")
    await bot.send_chat_action(ann.id, ChatAction.TYPING)
    await bot.send_message_draft(ann.id, draft_id=1, text="Su")
    buttons = InlineKeyboardMarkup(
        [[InlineKeyboardButton("Yes", callback_data="y"), InlineKeyboardButton("Site", url="https://a.example")]]
    )
    sent = await update.message.reply_text(
        "*Sure?*", parse_mode=ParseMode.MARKDOWN_V2, do_quote=True, reply_markup=buttons
    )
    assert sent.reply_to_message
    assert (sent.text, sent.entities[0].type) == ("Sure?", "bold")
    pressed = asyncio.get_running_loop().run_in_executor(None, ann.press, ann.chat.replies[0], "Yes")
    (update,) = await bot.get_updates(offset=update.update_id + 1, timeout=10)
    assert update.callback_query
    assert update.callback_query.data == "y"
    assert await update.callback_query.answer("Thanks")
    assert (await pressed).answer
    await update.callback_query.edit_message_text("Agreed")
    assert (ann.chat.replies[0].text, ann.chat.replies[0].buttons) == ("Agreed", ())
    with pytest.raises(BadRequest, match="Message is not modified"):
        await bot.edit_message_text("Agreed", ann.id, sent.message_id)
    await bot.set_message_reaction(ann.id, ann.chat.messages[0].id, "👍")
    await bot.delete_message(ann.id, sent.message_id)
    assert ann.chat.replies == []


async def test_the_updater_gets_every_update_over_broken_polls(telegram: FakeTelegram, bot: Bot, ann: User) -> None:
    telegram.faults = TelegramFaults(seed=5, cut_polls=0.2, cuts_after=0.1, duplicates=0.2, reorders=0.5, late=0.2)
    updater = Updater(bot, asyncio.Queue[object]())
    async with updater:
        received = await updater.start_polling(timeout=1, error_callback=lambda _: None)
        sent = {"/start"}
        got = list[str]()
        for number in range(30):
            sent.add(ann.write(ann.chat, f"{number}").text)
            if number % 5 == 0:
                got.append((await received.get()).message.text)  # type: ignore[attr-defined]
        async with asyncio.timeout(60):
            while set(got) != sent:
                got.append((await received.get()).message.text)  # type: ignore[attr-defined]
        telegram.clear_faults()
        await asyncio.to_thread(telegram.wait_for, lambda: telegram.pending_updates == 0)
        await updater.stop()


async def test_files_both_ways(bot: Bot, ann: User) -> None:
    ann.send_document(ann.chat, "a.txt", b"abc", caption="look")
    update = (await bot.get_updates())[-1]
    assert update.message
    assert update.message.document
    file = await update.message.document.get_file()
    assert bytes(await file.download_as_bytearray()) == b"abc"
    await bot.send_document(ann.id, b"result", filename="result.txt", caption="done")
    await bot.send_photo(ann.id, b"\xff\xd8")
    await bot.send_voice(ann.id, b"OggS")
    assert [reply.file and reply.file.kind for reply in ann.chat.replies] == ["document", "photo", "voice"]


async def test_chats_and_members(telegram: FakeTelegram, bot: Bot, ann: User) -> None:
    group = telegram.create_supergroup("Team", ann, topics=True)
    chat = await bot.get_chat(group.id)
    assert (chat.title, chat.is_forum) == ("Team", True)
    for status in (
        ChatMemberStatus.MEMBER,
        ChatMemberStatus.ADMINISTRATOR,
        ChatMemberStatus.RESTRICTED,
        ChatMemberStatus.LEFT,
        ChatMemberStatus.BANNED,
    ):
        group.add(ann, status)
        assert (await bot.get_chat_member(group.id, ann.id)).status == status
    group.add(ann, "creator")
    assert (await bot.get_chat_member(group.id, ann.id)).status == ChatMemberStatus.OWNER


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("too_many_requests", RetryAfter),
        ("server_error", NetworkError),
        ("html", NetworkError),
        ("cut_before", NetworkError),
        ("cut_after", NetworkError),
        ("hang", TimedOut),
    ],
)
async def test_faults_are_the_librarys_errors(
    telegram: FakeTelegram, bot: Bot, ann: User, kind: FaultKind, error: type[TelegramError]
) -> None:
    telegram.fail("sendMessage", kind, seconds=1)
    with pytest.raises(error):
        await bot.send_message(ann.id, "x", read_timeout=0.2)
    assert len(ann.chat.replies) == (kind in ("cut_after", "hang"))


async def test_refusals_are_the_librarys_errors(telegram: FakeTelegram, bot: Bot, ann: User) -> None:
    with pytest.raises(BadRequest, match="Chat not found"):
        await bot.send_message(1, "x")
    with pytest.raises(BadRequest, match="Message to be replied not found"):
        await bot.send_message(ann.id, "x", reply_to_message_id=99)
    group = telegram.create_group("Team", ann)
    upgraded = group.migrate()
    with pytest.raises(ChatMigrated) as migrated:
        await bot.send_message(group.id, "x")
    assert migrated.value.new_chat_id == upgraded.id
    ann.block()
    with pytest.raises(Forbidden, match="bot was blocked by the user"):
        await bot.send_message(ann.id, "x")
    await bot.set_webhook("https://bot.example")
    with pytest.raises(Conflict):
        await bot.get_updates()
    telegram.revoke_token()
    with pytest.raises(InvalidToken):
        await bot.get_me()
