"""What a person has in hand: one way to write, to read and to press for both platforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_testing import FakeDiscord, FakeTelegram
from agent_testing.discord import User as DiscordUser
from agent_testing.telegram import User as TelegramUser


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of the bot as people see it now."""

    id: str
    text: str
    buttons: Sequence[str]


class Phone(Protocol):
    @property
    def name(self) -> str:
        """The principal."""
        ...

    @property
    def chat(self) -> str: ...

    def write(self, text: str) -> str:
        """Write to the bot alone, and return the message's id."""
        ...

    def shown(self) -> list[Shown]:
        """What the bot has written and not deleted, oldest first."""
        ...

    def press(self, message: str, label: str) -> None:
        """Press a button, if it is still there. Nothing is waited for."""
        ...


class TelegramPhone:
    def __init__(self, telegram: FakeTelegram, name: str) -> None:
        self.user: TelegramUser = telegram.create_user(name)
        self.name, self.chat = f"telegram:{self.user.id}", str(self.user.id)

    def write(self, text: str) -> str:
        return str(self.user.write(self.user.chat, text).id)

    def shown(self) -> list[Shown]:
        return [
            Shown(str(one.id), one.text, [button.label for row in one.buttons for button in row])
            for one in self.user.chat.replies
        ]

    def press(self, message: str, label: str) -> None:
        found = self.user.chat.find(int(message))
        if found is not None and any(button.label == label for row in found.buttons for button in row):
            self.user.press(found, label, seconds=None)


class DiscordPhone:
    def __init__(self, discord: FakeDiscord, name: str) -> None:
        self.user: DiscordUser = discord.user(name)
        self._channel = self.user.dm()
        self.name, self.chat = f"discord:{self.user.id}", str(self._channel.id)

    def write(self, text: str) -> str:
        return str(self.user.write(self._channel, text).id)

    def shown(self) -> list[Shown]:
        return [
            Shown(str(one.id), one.content, [button.label for button in one.buttons])
            for one in self._channel.messages
            if one.author.is_bot
        ]

    def press(self, message: str, label: str) -> None:
        found = next((one for one in self._channel.messages if str(one.id) == message), None)
        if found is not None and any(button.label == label for button in found.buttons):
            self.user.press(found, label)
