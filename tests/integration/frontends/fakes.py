"""A platform and a handler whose every answer a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from frontends.people import Person, allow_in
from frontends.platform import (
    Accept,
    Chat,
    Command,
    IncomingFile,
    Piece,
    PlatformLimits,
    PlatformName,
    Sender,
    Update,
)
from frontends.store import Database

TEAM = Chat("-100", private=False, title="Team")


def private(id: int) -> Chat:
    return Chat(str(id), private=True)


def message(
    id: int, sender: int = 1, *, chat: Chat | None = None, order: int | None = None, addressed: bool = True
) -> Update:
    who = Sender(str(sender), f"person {sender}")
    where = chat or private(sender)
    return Update(str(id), "message", where, who, f"m{id}", id if order is None else order, f"text {id}", addressed)


def press(id: int, sender: int, chat: Chat) -> Update:
    return Update(
        str(id), "button", chat, Sender(str(sender), "x"), "m1", id, "a:1:once", interaction=f"interaction {id}"
    )


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def admit(database: Database, bot: str, *people: int) -> None:
    allowed = {bot: [f"telegram:{id}" for id in people]}
    await database.run(partial(allow_in, allowed=allowed))


@dataclass
class FakePlatform:
    """Keeps what is sent. What `opening` and `receiving` hold is raised, one after the other."""

    sent: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Chat and text of each message."""
    acknowledged: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    opening: list[Exception] = field(default_factory=list[Exception])
    receiving: list[Exception] = field(default_factory=list[Exception])
    sending: list[Exception] = field(default_factory=list[Exception])
    hangs: bool = False
    """Whether what is sent gets no answer."""
    opened: int = 0
    since: Mapping[str, str] | None = None
    moved: Mapping[str, str] | None = None
    closed: bool = False

    @property
    def name(self) -> PlatformName:
        return "telegram"

    @property
    def limits(self) -> PlatformLimits:
        return PlatformLimits(1.0, 1 << 20, 1 << 20)

    def split(self, markdown: str) -> list[str]:
        return [markdown]

    async def open(self, commands: Sequence[Command]) -> None:
        self.opened += 1
        if self.opening:
            raise self.opening.pop(0)

    async def receive(self, accept: Accept, since: Mapping[str, str], moved: Mapping[str, str] | None = None) -> None:
        self.since, self.moved = since, moved
        if self.receiving:
            raise self.receiving.pop(0)
        await asyncio.Event().wait()

    async def send(self, chat: Chat, piece: Piece, *, key: str, reply_to: str | None = None) -> str:
        if self.sending:
            raise self.sending.pop(0)
        if self.hangs:
            await asyncio.Event().wait()
        self.sent.append((chat.id, piece.markdown))
        return str(len(self.sent))

    def newest(self, chat: Chat) -> str | None:
        return None

    async def find(
        self, chat: Chat, piece: Piece, *, key: str, after: str, known: Collection[str] = (), file: bool = False
    ) -> str | None:
        return None

    async def edit(self, chat: Chat, message_id: str, piece: Piece) -> None:
        pass

    async def delete(self, chat: Chat, message_id: str) -> None:
        pass

    async def send_file(self, chat: Chat, name: str, content: bytes, *, key: str, caption: str = "") -> str:
        return "file"

    def download(self, file: IncomingFile) -> AsyncGenerator[bytes]:
        raise NotImplementedError

    async def show_typing(self, chat: Chat) -> None:
        pass

    async def acknowledge(self, interaction: str, text: str = "") -> None:
        self.acknowledged.append((interaction, text))

    async def aclose(self) -> None:
        self.closed = True

    def texts(self, chat: int) -> list[str]:
        return [text for where, text in self.sent if where == str(chat)]


Answer = Callable[[Update], Awaitable[None]]


class FakeHandler:
    """Notes what it is given, and does with it what `answer` does."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        """Ids of updates, each as often as it was tried."""
        self.told: dict[str, tuple[str, str]] = {}
        """Chat and text of each notice, by its key."""
        self.people: list[Person] = []
        self.answer: Answer = self._nothing

    async def handle(self, bot: str, update: Update, person: Person) -> None:
        self.handled.append(update.id)
        self.people.append(person)
        await self.answer(update)

    async def tell(self, bot: str, chat: Chat, text: str, *, key: str) -> None:
        self.told.setdefault(key, (chat.id, text))

    async def end_removed(self) -> None:
        pass

    def texts(self, chat: int) -> list[str]:
        return [text for where, text in self.told.values() if where == str(chat)]

    async def _nothing(self, update: Update) -> None:
        pass
