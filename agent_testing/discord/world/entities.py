"""What Discord keeps: accounts, guilds, channels, messages. Plain data; `world.py` changes it under its lock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

ChannelKind = Literal["dm", "text", "thread"]
SUPPRESS_EMBEDS = 1 << 2
EPHEMERAL = 1 << 6
LOADING = 1 << 7
SUPPRESS_NOTIFICATIONS = 1 << 12
JSON = dict[str, Any]


@dataclass(eq=False, slots=True)
class Account:
    """A person or a bot."""

    id: int
    name: str
    is_bot: bool = False

    @property
    def mention(self) -> str:
        return f"<@{self.id}>"


@dataclass(eq=False, slots=True)
class Bot(Account):
    """A bot, and the application that it belongs to, which has the same id."""

    token: str = ""
    message_content: bool = True
    """Whether its owner may ask for the privileged intent of message contents."""
    members: bool = True
    """Whether its owner may ask for the privileged intent of guild members."""
    revoked: bool = False
    commands: list[JSON] = field(default_factory=list[JSON])
    """The registered application commands."""


@dataclass(eq=False, slots=True)
class Guild:
    id: int
    name: str
    owner: Account
    members: dict[int, Account] = field(default_factory=dict[int, Account])
    channels: list[Channel] = field(default_factory=list["Channel"])


@dataclass(eq=False, slots=True)
class Channel:
    id: int
    kind: ChannelKind
    name: str = ""
    guild: Guild | None = None
    parent: Channel | None = None
    """The text channel that a thread belongs to."""
    starter: Message | None = None
    """The message that a thread was started from."""
    owner: Account | None = None
    """Who started the thread."""
    recipients: tuple[Account, ...] = ()
    """Of a private chat: the person and the bot."""
    log: list[Message] = field(default_factory=list["Message"])
    """All messages there ever were, with deleted ones and those that only one person sees."""
    typing: list[Account] = field(default_factory=list[Account])
    """Each time somebody began to type, oldest first."""
    deleted: bool = False
    hidden: bool = False
    """Bots may not see it: 50001."""
    read_only: bool = False
    """Bots may not write to it: 50013."""
    archived: bool = False
    locked: bool = False

    @property
    def messages(self) -> list[Message]:
        """What everyone in the channel sees, oldest first."""
        return [message for message in list(self.log) if not message.deleted and message.only_for is None]

    def visible_to(self, account: Account) -> bool:
        if self.kind == "dm":
            return account in self.recipients
        guild_sees = self.guild is not None and account.id in self.guild.members
        hidden = self.hidden or (self.parent is not None and self.parent.hidden)
        return guild_sees and not (hidden and account.is_bot)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to attach to a message."""

    name: str
    data: bytes
    content_type: str = "application/octet-stream"
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    id: int
    name: str
    data: bytes = field(repr=False)
    content_type: str
    url: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Button:
    label: str
    custom_id: str
    disabled: bool
    style: int


@dataclass(frozen=True, slots=True)
class Version:
    """What a message was before an edit."""

    content: str
    components: Sequence[JSON]
    at: float
    """`time.monotonic()` of the edit that replaced it."""


@dataclass(eq=False, slots=True)
class Message:
    id: int
    channel: Channel
    author: Account
    content: str
    created: float
    """Seconds since the epoch."""
    edited: float | None = None
    history: list[Version] = field(default_factory=list[Version])
    """The versions before this one, oldest first."""
    components: Sequence[JSON] = ()
    embeds: Sequence[JSON] = ()
    attachments: Sequence[Attachment] = ()
    flags: int = 0
    reply_to: Message | None = None
    mentions: Sequence[Account] = ()
    """Accounts whose names the text shows, and the author of the message that it replies to."""
    notified: Sequence[Account] = ()
    """Those whose phones made a sound when it was written."""
    mentions_everyone: bool = False
    nonce: str | int | None = None
    deleted: bool = False
    only_for: Account | None = None
    """An ephemeral answer: the one person who sees it."""
    interaction: int | None = None
    """The interaction that it answers."""
    reactions: dict[str, list[Account]] = field(default_factory=dict[str, list[Account]])
    thread: Channel | None = None

    @property
    def ephemeral(self) -> bool:
        return bool(self.flags & EPHEMERAL)

    @property
    def loading(self) -> bool:
        """Whether people see "the application is thinking"."""
        return bool(self.flags & LOADING)

    @property
    def buttons(self) -> list[Button]:
        """All buttons, in the order in which people see them; a link has no `custom_id`."""
        return [
            Button(each.get("label", ""), each.get("custom_id", ""), bool(each.get("disabled")), each["style"])
            for each in self.parts()
            if each["type"] == 2
        ]

    def parts(self) -> Iterator[JSON]:
        """The components of all rows."""
        for row in self.components:
            yield from row["components"]


InteractionKind = Literal["command", "button", "select"]
AnswerKind = Literal["message", "deferred-message", "deferred-update", "update", "autocomplete", "modal"]


@dataclass(eq=False, slots=True)
class Interaction:
    """A person pressed something or called a command; the bot has three seconds to answer."""

    id: int
    token: str
    kind: InteractionKind
    user: Account
    bot: Bot
    channel: Channel
    data: JSON
    created: float
    """`time.monotonic()` when the person acted."""
    message: Message | None = None
    """The message with the button."""
    answer: AnswerKind | None = None
    """How the bot has answered; None if it has not."""
    original: Message | None = None
    """The message that is the answer: the one with the button if it was updated."""
    modal: JSON | None = None
    followups: list[Message] = field(default_factory=list[Message])
