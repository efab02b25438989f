"""A platform in memory for tests of bots: it keeps what it shows, checks its callers, and fails when a test says so."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frontends.platform import (
    Accept,
    Chat,
    Command,
    IncomingFile,
    MessageGone,
    Piece,
    PlatformLimits,
    PlatformName,
    Sender,
    TemporarilyUnavailable,
    Update,
)

CHAT = Chat("500", private=True)
GROUP = Chat("-900", private=False, title="Team")
ANN = Sender("1", "Ann")
LENGTH = 200
"""Characters of a message."""


class Killed(BaseException):
    """The process dies here."""


@dataclass
class Shown:
    """A message as people see it."""

    id: str
    chat: str
    key: str
    piece: Piece
    reply_to: str | None = None
    file: tuple[str, bytes] | None = None


@dataclass
class MemoryPlatform:
    """`before` and `after` are called around each call with its name; what they raise, the caller gets."""

    messages: dict[str, Shown] = field(default_factory=dict)
    acknowledged: list[tuple[str, str]] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    before: Callable[[str], None] = lambda _: None
    after: Callable[[str], None] = lambda _: None
    edit_seconds: float = 0.0
    typing: int = 0
    name: PlatformName = "telegram"

    def __post_init__(self) -> None:
        self._ids = itertools.count(1001)
        self._of_keys: dict[str, str] = {}
        self._busy: set[str] = set()

    @property
    def limits(self) -> PlatformLimits:
        return PlatformLimits(self.edit_seconds, download_bytes=1_000_000, upload_bytes=1_000_000)

    def shown(self, chat: Chat = CHAT) -> list[str]:
        """The texts of a chat, in their order."""
        return [one.piece.markdown for one in self.messages.values() if one.chat == chat.id]

    def split(self, markdown: str) -> list[str]:
        return [markdown[at : at + LENGTH] for at in range(0, len(markdown), LENGTH)]

    async def open(self, commands: Sequence[Command]) -> None: ...

    async def receive(
        self, accept: Accept, since: Mapping[str, str], moved: Mapping[str, str] | None = None
    ) -> None: ...

    async def send(self, chat: Chat, piece: Piece, *, key: str, reply_to: str | None = None) -> str:
        return await self._call("send", chat, lambda: self._send(chat, piece, key, reply_to))

    async def send_file(self, chat: Chat, name: str, content: bytes, *, key: str, caption: str = "") -> str:
        return await self._call("send_file", chat, lambda: self._send(chat, Piece(caption), key, None, (name, content)))

    def newest(self, chat: Chat) -> str | None:
        return max(self.messages, key=int, default=None)

    async def find(
        self, chat: Chat, piece: Piece, *, key: str, after: str, known: Collection[str] = (), file: bool = False
    ) -> str | None:
        def find() -> str | None:
            """As on Telegram: keys are not known there, and any other message is taken for the one that is lost."""
            for one in self.messages.values():
                if one.chat == chat.id and int(one.id) > int(after or 0) and one.id not in known:
                    assert one.key == key
                    assert (one.file is not None) == file
                    one.piece = piece
                    return one.id
            return None

        return await self._call("find", chat, find)

    async def edit(self, chat: Chat, message_id: str, piece: Piece) -> None:
        def edit() -> None:
            if message_id not in self.messages:
                raise MessageGone("it was deleted")
            self._check(piece)
            self.messages[message_id].piece = piece

        await self._call("edit", chat, edit)

    async def delete(self, chat: Chat, message_id: str) -> None:
        await self._call("delete", chat, lambda: self.messages.pop(message_id, None))

    async def download(self, file: IncomingFile) -> AsyncGenerator[bytes]:
        content = self.uploads[file.reference]
        for at in range(0, len(content), 1000):
            yield content[at : at + 1000]

    async def show_typing(self, chat: Chat) -> None:
        self.typing += 1

    async def acknowledge(self, interaction: str, text: str = "") -> None:
        self.acknowledged.append((interaction, text))

    async def aclose(self) -> None: ...

    def _send(
        self, chat: Chat, piece: Piece, key: str, reply_to: str | None, file: tuple[str, bytes] | None = None
    ) -> str:
        """As on Discord: a second message of the same key is taken for the first one, also when that was deleted."""
        self._check(piece)
        if key not in self._of_keys:
            new = Shown(str(next(self._ids)), chat.id, key, piece, reply_to, file)
            self.messages[new.id] = new
            self._of_keys[key] = new.id
        return self._of_keys[key]

    def _check(self, piece: Piece) -> None:
        assert len(piece.markdown) <= LENGTH
        assert len(piece.buttons) <= 5
        assert all(1 <= len(row) <= 5 for row in piece.buttons)
        for button in itertools.chain(*piece.buttons):
            assert len(button.label) <= 64
            assert button.label
            assert len(button.data.encode()) <= 64

    async def _call(self, name: str, chat: Chat, call: Callable):
        assert chat.id not in self._busy, "two calls at the same time in one chat"
        self._busy.add(chat.id)
        try:
            self.calls.append(name)
            self.before(name)
            await asyncio.sleep(0)
            done = call()
            self.after(name)
            return done
        finally:
            self._busy.discard(chat.id)


def let_in(connection: sqlite3.Connection, bot: str, identity: str) -> None:
    """Let somebody use the bot, beside those who may."""
    connection.execute("INSERT OR IGNORE INTO identities (identity, person) VALUES (?, ?)", (identity, identity))
    connection.execute(
        "INSERT OR IGNORE INTO admissions (bot, identity, source) VALUES (?, ?, 'code')", (bot, identity)
    )


def unreachable(*, refused: bool = False) -> TemporarilyUnavailable:
    return TemporarilyUnavailable("no answer", retry_after=0.0, refused=refused)


class People:
    """Updates in the order in which people act."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def message(self, text: str, chat: Chat = CHAT, sender: Sender = ANN, **more: Any) -> Update:
        number = next(self._numbers)
        return Update(f"u{number}", "message", chat, sender, str(number), number, text=text, **more)

    def edit(self, message_id: str, text: str, chat: Chat = CHAT, sender: Sender = ANN) -> Update:
        number = next(self._numbers)
        return Update(f"u{number}", "edit", chat, sender, message_id, number, text=text)

    def press(self, data: str, message_id: str = "1", chat: Chat = CHAT, sender: Sender = ANN) -> Update:
        number = next(self._numbers)
        return Update(f"u{number}", "button", chat, sender, message_id, number, text=data, interaction=f"i{number}")
