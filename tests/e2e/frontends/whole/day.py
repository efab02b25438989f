"""What a model does on the day of a person, and a person on each platform."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from agent_testing import Call, FakeDiscord, FakeTelegram, Say
from agent_testing.discord import Channel
from agent_testing.discord import Message as DiscordMessage
from agent_testing.discord import User as DiscordUser
from agent_testing.telegram import Chat
from agent_testing.telegram import Message as TelegramMessage
from agent_testing.telegram import User as TelegramUser

from .world import ASKS, World

T = TypeVar("T")
SECONDS = 60.0
STREAM = [Say(pieces=("It ", "comes ", "in ", "**pieces**."), delay=0.5)]
LONG = "\n\n".join(f"{number} " + "and so it goes " * 60 for number in range(8))
"""Two messages of Telegram, four of Discord."""
APPROVAL = [Call("bash", {"command": f"echo {ASKS}once"}, text="Let me see."), Say("It **ran**.")]
QUESTION = Call("question", {"questions": [{"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]}]})
FILE = [
    Call("write", {"path": "report.txt", "content": "all is well"}),
    Say("Here is [the report](workspace:report.txt)."),
]


def waited(platform: FakeTelegram | FakeDiscord, holds: Callable[[], T | None]) -> T:
    found = platform.wait_for(holds, SECONDS)
    assert found is not None
    return found


class OnTelegram:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.telegram = world, world.telegram
        self.user: TelegramUser = world.telegram.create_user(name)

    def says(self, text: str, expected: str, chat: Chat | None = None) -> TelegramMessage:
        """Write, and wait for a message of the bot that comes after it and has this in it."""
        where = chat or self.user.chat
        written = self.user.write(where, text)
        return self.found(expected, where, written.id)

    def found(self, part: str, chat: Chat | None = None, after: int = 0) -> TelegramMessage:
        where = chat or self.user.chat
        return waited(
            self.telegram, lambda: next((one for one in where.replies if one.id > after and part in one.text), None)
        )

    def pair(self, *options: str) -> None:
        shown = self.says("hello", "agent bots pair")
        code = re.search(r"agent bots pair (\S+)", shown.text)
        assert code is not None
        self.world.command("pair", code[1], *options)
        self.found("You are paired")


class OnDiscord:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.discord = world, world.discord
        self.user: DiscordUser = world.discord.user(name)

    def says(self, text: str, expected: str, channel: Channel | None = None) -> DiscordMessage:
        where = channel or self.user.dm()
        mentions = [self.discord.bot] if where.kind == "text" else []
        written = self.user.write(where, text, mentions=mentions)
        return self.found(expected, where, written.id)

    def found(self, part: str, channel: Channel | None = None, after: int = 0) -> DiscordMessage:
        where = channel or self.user.dm()

        def find() -> DiscordMessage | None:
            every = [one for one in where.messages if one.author.is_bot and one.id > after]
            return next((one for one in every if part in one.content), None)

        return waited(self.discord, find)

    def pair(self, *options: str) -> None:
        shown = self.says("hello", "agent bots pair")
        code = re.search(r"agent bots pair (\S+)", shown.content)
        assert code is not None
        self.world.command("pair", code[1], *options)
        self.found("You are paired")
