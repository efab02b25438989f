"""What a chat platform is to the rest: the updates that come from it, and what can be sent to it.

A platform turns its own messages into `Update`s and sends `Piece`s. It knows nothing of agents and sessions.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

PlatformName = Literal["telegram", "discord"]
UpdateKind = Literal["message", "edit", "button", "move"]


@dataclass(frozen=True, slots=True)
class Sender:
    """Who wrote a message or pressed a button."""

    id: str
    """The platform's own number."""
    name: str
    """As other people see it. It is the sender's own choice, so it proves nothing."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A private chat, a group, a topic of a group, a channel or a thread."""

    id: str
    """The platform's own number; a topic of a Telegram group is `CHAT/TOPIC`."""
    private: bool
    title: str = ""


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """A file that somebody sent; `Platform.download` fetches it."""

    reference: str
    """What the platform needs to fetch it: a file id, or a URL."""
    name: str
    media_type: str
    size: int | None
    """Bytes, as the platform says; None if it does not."""


@dataclass(frozen=True, slots=True)
class Quote:
    """What a message replies to, as far as it can be said in words."""

    text: str
    sender: Sender
    """Who wrote it. The id is empty if the platform does not tell it."""
    own: bool = False
    """Whether the bot wrote it."""
    part: bool = False
    """Whether the person has chosen a part of it."""


@dataclass(frozen=True, slots=True)
class Update:
    """Something that a person did. It is stored as JSON before the platform is told that it has arrived."""

    id: str
    """The same whenever the platform delivers it again. An edited message has another id than the message."""
    kind: UpdateKind
    chat: Chat
    sender: Sender
    message_id: str
    """The message that was written or edited, or that has the button."""
    order: int
    """Grows within a chat in the order in which people acted."""
    text: str = ""
    """Of a message: without the mention of the bot. Of a button: its data. Of a move: the number that the platform has
    for the chat from now on. For us it keeps its id, and those of its messages go on growing."""
    addressed: bool = True
    """Whether it is meant for the bot: always in a private chat; in a group a command, a mention, or a reply to it."""
    reply_to: str | None = None
    """The message to which it replies."""
    quote: Quote | None = None
    """The words of that message, or of one in another chat."""
    forwarded_from: str | None = None
    """Who wrote the text first, as other people see it, if it was forwarded: it proves nothing."""
    files: Sequence[IncomingFile] = ()
    interaction: str | None = None
    """Of a button: what `acknowledge` takes."""
    album: str | None = None
    """Of a message: what it is a part of. Those of one album that come together are one message."""


@dataclass(frozen=True, slots=True)
class Button:
    """A button under a message. `data` comes back as the text of an update, at most 64 bytes."""

    label: str
    data: str


@dataclass(frozen=True, slots=True)
class Piece:
    """One message as it should look: Markdown of an agent, and rows of buttons."""

    markdown: str
    buttons: Sequence[Sequence[Button]] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command that people may type, registered with the platform."""

    name: str
    description: str
    argument: str | None = None
    """What follows it, if anything does."""


@dataclass(frozen=True, slots=True)
class PlatformLimits:
    edit_seconds: float
    """Least time between two changes to messages of one chat."""
    download_bytes: int
    upload_bytes: int


class PlatformError(Exception):
    """The platform refused something, or cannot be reached."""


class ChatGone(PlatformError):
    """The chat was deleted, or the person has blocked the bot: nothing can be sent to it any more."""


class MessageGone(PlatformError):
    """The message was deleted, or is too old to be changed."""


class TokenRejected(PlatformError):
    """The platform does not know the bot's token (any more)."""


class AnotherCopy(PlatformError):
    """Another process receives the updates of this bot."""


class TemporarilyUnavailable(PlatformError):
    """The platform did not answer, answered with a fault of its own, or asks to wait. The call may have had its effect
    unless `refused`."""

    def __init__(self, message: str, *, retry_after: float | None = None, refused: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.refused = refused


Accept = Callable[[Sequence[Update]], Awaitable[None]]
"""Stores updates. They are on disk when it returns, and only then may the platform forget them."""


class Platform(Protocol):
    """One bot on one platform. All calls raise PlatformError, and wait for the platform's rate limits by themselves."""

    @property
    def name(self) -> PlatformName: ...

    @property
    def limits(self) -> PlatformLimits: ...

    def split(self, markdown: str) -> list[str]:
        """Split a long text into the texts of messages, in the platform's lengths. As a text grows at its end, all
        messages but the last stay as they were."""
        ...

    async def open(self, commands: Sequence[Command]) -> None:
        """Check the token and register the commands. Raises TokenRejected."""
        ...

    async def receive(self, accept: Accept, since: Mapping[str, str], moved: Mapping[str, str] | None = None) -> None:
        """Pass on what people do until it is cancelled; after a broken connection it goes on by itself. `since` has the
        newest message that is stored of each chat by the chat's id: a platform that keeps nothing for a bot that is
        away reads from there what was written meanwhile. `moved` has the ids of the chats whose moves are stored by
        their present numbers. Raises TokenRejected, and AnotherCopy if another copy stays.
        What `accept` raises ends it."""
        ...

    async def send(self, chat: Chat, piece: Piece, *, key: str, reply_to: str | None = None) -> str:
        """Send a message that notifies nobody but the chat's own people, and return its id. The same `key` names the
        same message."""
        ...

    def newest(self, chat: Chat) -> str | None:
        """Return the newest message that this process knows where the chat's messages are numbered, if any. Noted with
        the key before a send, it is what `find` takes as `after`: messages of many chats may share their numbers."""
        ...

    async def find(
        self, chat: Chat, piece: Piece, *, key: str, after: str, known: Collection[str] = (), file: bool = False
    ) -> str | None:
        """Return the id of the message that was sent under this key, if it arrived: the answer was lost, or the process
        died before it could note the id. The message looks like the piece then, whatever it looked like before.

        `after`: the newest message that was known when the key was noted. `known`: the bot's messages in the chat after
        it whose ids are known, and the last one before, because on Telegram another one of the bot is taken for the one
        that is looked for.
        Until this returns, nothing else may be sent to the chat. `file`: it was sent by `send_file`, with the piece's
        text as caption."""
        ...

    async def edit(self, chat: Chat, message_id: str, piece: Piece) -> None:
        """Change a message, its buttons too. Nothing happens if it is the same already."""
        ...

    async def delete(self, chat: Chat, message_id: str) -> None:
        """Delete a message; nothing happens if it is gone."""
        ...

    async def send_file(self, chat: Chat, name: str, content: bytes, *, key: str, caption: str = "") -> str:
        """Send a file and return the message's id."""
        ...

    def download(self, file: IncomingFile) -> AsyncGenerator[bytes]:
        """Yield the content of a file."""
        ...

    async def show_typing(self, chat: Chat) -> None:
        """Show for some seconds that the bot is writing."""
        ...

    async def acknowledge(self, interaction: str, text: str = "") -> None:
        """Tell the person that a press has arrived, with a short text that only they see. Nothing happens if it is too
        late for that."""
        ...

    async def aclose(self) -> None: ...
