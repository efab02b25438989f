"""What a person has in hand: one way to write, to read and to press for both platforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from agent_testing import FakeDiscord, FakeTelegram
from agent_testing.discord import Message as DiscordMessage
from agent_testing.discord import User as DiscordUser
from agent_testing.telegram import Message as TelegramMessage
from agent_testing.telegram import User as TelegramUser

T = TypeVar("T")
SECONDS = 60.0
"""Seconds that a person waits for the bot."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of the bot as people see it now."""

    id: str
    text: str
    buttons: Sequence[str]
    files: Sequence[tuple[str, bytes]] = ()


class Phone(Protocol):
    @property
    def name(self) -> str:
        """The principal."""
        ...

    @property
    def chat(self) -> str: ...

    def write(self, text: str, reply_to: str | None = None) -> str:
        """Write to the bot alone, and return the message's id."""
        ...

    def edit(self, message: str, text: str) -> None:
        """Change an own message."""
        ...

    def command(self, name: str, argument: str = "") -> None:
        """Call a command as people do on this platform, and wait until it has arrived."""
        ...

    def menu(self) -> set[str]:
        """The names of the commands that the platform offers."""
        ...

    def shown(self) -> list[Shown]:
        """What the bot has written and not deleted, oldest first."""
        ...

    def press(self, message: str, label: str) -> None:
        """Press a button, if it is still there. Nothing is waited for."""
        ...

    def wait_for(self, holds: Callable[[], T | None]) -> T:
        """Wait until something holds that the platform shows, and return it. Raises TimeoutError."""
        ...


class TelegramPhone:
    def __init__(self, telegram: FakeTelegram, name: str) -> None:
        self.user: TelegramUser = telegram.create_user(name)
        self.name, self.chat = f"telegram:{self.user.id}", str(self.user.id)
        self._telegram = telegram

    def write(self, text: str, reply_to: str | None = None) -> str:
        replied = None if reply_to is None else self._message(reply_to)
        return str(self.user.write(self.user.chat, text, reply_to=replied).id)

    def edit(self, message: str, text: str) -> None:
        self.user.edit(self._message(message), text)

    def command(self, name: str, argument: str = "") -> None:
        self.write(f"/{name} {argument}".strip())

    def menu(self) -> set[str]:
        return set(self._telegram.commands_for('{"type":"all_private_chats"}'))

    def shown(self) -> list[Shown]:
        return [
            Shown(
                str(one.id),
                one.text,
                [button.label for row in one.buttons for button in row],
                [(one.file.name, one.file.content)] if one.file else [],
            )
            for one in self.user.chat.replies
        ]

    def press(self, message: str, label: str) -> None:
        found = self.user.chat.find(int(message))
        if found is not None and any(button.label == label for row in found.buttons for button in row):
            self.user.press(found, label, seconds=None)

    def wait_for(self, holds: Callable[[], T | None]) -> T:
        found = self._telegram.wait_for(holds, SECONDS)
        assert found is not None
        return found

    def _message(self, id: str) -> TelegramMessage:
        found = self.user.chat.find(int(id))
        assert found is not None, f"{id} is deleted"
        return found


class DiscordPhone:
    def __init__(self, discord: FakeDiscord, name: str) -> None:
        self.user: DiscordUser = discord.user(name)
        self._channel = self.user.dm()
        self.name, self.chat = f"discord:{self.user.id}", str(self._channel.id)
        self._discord = discord

    def write(self, text: str, reply_to: str | None = None) -> str:
        replied = None if reply_to is None else self._message(reply_to)
        return str(self.user.write(self._channel, text, reply_to=replied).id)

    def edit(self, message: str, text: str) -> None:
        self.user.edit(self._message(message), text)

    def command(self, name: str, argument: str = "") -> None:
        known = next(one for one in self._discord.bot.commands if one["name"] == name)
        options: dict[str, Any] = {known["options"][0]["name"]: argument} if argument else {}
        self.user.command(name, **options).wait(SECONDS)

    def menu(self) -> set[str]:
        return {one["name"] for one in self._discord.bot.commands}

    def shown(self) -> list[Shown]:
        return [
            Shown(
                str(one.id),
                one.content,
                [button.label for button in one.buttons],
                [(file.name, file.data) for file in one.attachments],
            )
            for one in self._channel.messages
            if one.author.is_bot
        ]

    def press(self, message: str, label: str) -> None:
        found = next((one for one in self._channel.messages if str(one.id) == message), None)
        if found is not None and any(button.label == label for button in found.buttons):
            self.user.press(found, label)

    def wait_for(self, holds: Callable[[], T | None]) -> T:
        return self._discord.wait_for(holds, SECONDS)

    def _message(self, id: str) -> DiscordMessage:
        return next(one for one in self._channel.messages if str(one.id) == id)
