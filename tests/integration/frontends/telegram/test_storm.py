"""Messages are shown once and in order, although answers are lost, calls are refused and the sender is killed."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from agent_testing.telegram import Chat as RealChat
from agent_testing.telegram import FakeTelegram, TelegramFaults
from frontends.platform import Chat, Piece, TemporarilyUnavailable
from frontends.telegram import TelegramPlatform
from tests.storm_seed import storm_seed


class Conversation:
    """Sends to one chat as the port asks: what may have arrived is looked for before it is sent again."""

    def __init__(self, bot: TelegramPlatform, chat: Chat, first: str) -> None:
        self._bot, self._chat = bot, chat
        self._noted = [first]

    async def deliver(self, text: str) -> None:
        after = self._bot.newest(self._chat) or self._noted[-1]
        arrived = None
        while arrived is None:
            arrived = await self._send(text) or await self._find(text, after)
        self._noted.append(arrived)

    async def edit(self, text: str) -> None:
        while True:
            try:
                return await self._bot.edit(self._chat, self._noted[-1], Piece(text))
            except TemporarilyUnavailable as error:
                await asyncio.sleep(error.retry_after or 0.01)

    async def _send(self, text: str) -> str | None:
        while True:
            try:
                return await self._bot.send(self._chat, Piece(text), key=text, reply_to=self._noted[0])
            except TemporarilyUnavailable as error:
                if not error.refused:
                    return None
                await asyncio.sleep(error.retry_after or 0.01)

    async def _find(self, text: str, after: str) -> str | None:
        while True:
            try:
                return await self._bot.find(self._chat, Piece(text), key=text, after=after, known=self._noted)
            except TemporarilyUnavailable as error:
                await asyncio.sleep(error.retry_after or 0.01)


def shown(chat: RealChat, telegram: FakeTelegram) -> list[str]:
    return [message.text for message in chat.visible if message.sender is telegram.bot]


@pytest.mark.slow
async def test_every_message_is_shown_once_and_in_order(telegram: FakeTelegram, bot: TelegramPlatform) -> None:
    people = [telegram.create_user(f"P{number}") for number in range(6)]
    group = telegram.create_supergroup("Team", people[0])
    chats: list[tuple[RealChat, str]] = [(each.chat, str(each.write(each.chat, "hi").id)) for each in people]
    chats.append((group, str(people[0].write(group, "hi").id)))
    telegram.faults = TelegramFaults(
        storm_seed(), too_many_requests=0.02, server_errors=0.03, html=0.03, cuts_before=0.05, cuts_after=0.2
    )

    async def talk(chat: RealChat, first: str) -> None:
        conversation = Conversation(bot, Chat(str(chat.id), private=chat.id > 0), first)
        for number in range(2):
            await conversation.deliver(f"{number}")
            await conversation.edit(f"{number}, changed")

    async with asyncio.timeout(150), asyncio.TaskGroup() as tasks:
        for chat, first in chats:
            tasks.create_task(talk(chat, first))
    for chat, _ in chats:
        assert shown(chat, telegram) == ["0, changed", "1, changed"]
    assert telegram.violations == []


SENDER = """
import asyncio, sys
from frontends.platform import Chat, Piece
from frontends.telegram import TelegramPlatform

async def main(token, url, chat):
    await TelegramPlatform(token, url).send(Chat(chat, private=True), Piece("the answer"), key="k")

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_message_of_a_killed_process_is_found(telegram: FakeTelegram, bot: TelegramPlatform) -> None:
    ann = telegram.create_user("Ann")
    ann.write(ann.chat, "hi")
    telegram.fail("sendMessage", "hang", seconds=60)
    sender = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SENDER, telegram.token, telegram.url, str(ann.id)
    )
    await asyncio.to_thread(telegram.wait_for, lambda: shown(ann.chat, telegram), 60)
    sender.kill()
    assert await sender.wait() == -signal.SIGKILL
    chat = Chat(str(ann.id), private=True)
    assert await bot.find(chat, Piece("the answer, longer"), key="k", after="1") == "2"
    assert shown(ann.chat, telegram) == ["the answer, longer"]
