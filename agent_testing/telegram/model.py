"""What Telegram stores: accounts, chats, messages and files. Objects are live: they show what people see now."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

ChatKind = Literal["private", "group", "supergroup"]
FileKind = Literal["document", "photo", "voice"]
_TYPING_SECONDS = 5.0


@dataclass(eq=False, slots=True, kw_only=True)
class Account:
    """A person or a bot."""

    id: int
    name: str
    username: str | None = None
    language: str | None = None
    is_bot: bool = False
    started: bool = False
    """Whether the person has written to the bot, without which it may not write to them."""
    has_blocked_bot: bool = False
    deactivated: bool = False

    def to_json(self) -> dict[str, Any]:
        fields = {"id": self.id, "is_bot": self.is_bot, "first_name": self.name}
        more = {"username": self.username, "language_code": self.language}
        return {**fields, **{name: value for name, value in more.items() if value}}


@dataclass(frozen=True, slots=True)
class Entity:
    """A part of a text with a meaning; offsets and lengths are in UTF-16 code units."""

    type: str
    offset: int
    length: int
    url: str | None = None
    user: Account | None = None
    language: str | None = None
    custom_emoji_id: str | None = None

    @property
    def end(self) -> int:
        return self.offset + self.length

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"type": self.type, "offset": self.offset, "length": self.length, "url": self.url}
        fields |= {"language": self.language, "custom_emoji_id": self.custom_emoji_id}
        fields["user"] = self.user.to_json() if self.user else None
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Button:
    """A button under a message: with data for the bot, or with an address."""

    label: str
    data: str | None = None
    url: str | None = None

    def to_json(self) -> dict[str, str]:
        return {"text": self.label, **({"callback_data": self.data} if self.data else {"url": self.url or ""})}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that was sent. `size` may be a claim, to try limits without the bytes."""

    id: str
    kind: FileKind
    name: str
    media_type: str
    content: bytes = field(repr=False)
    size: int
    path: str
    """As getFile tells it."""

    @property
    def unique_id(self) -> str:
        return f"u{self.id}"

    def to_json(self) -> Any:
        shell = {"file_id": self.id, "file_unique_id": self.unique_id, "file_size": self.size}
        match self.kind:
            case "photo":
                return [{**shell, "width": 90, "height": 60}]
            case "voice":
                return {**shell, "duration": 1, "mime_type": self.media_type}
            case "document":
                return {**shell, "file_name": self.name, "mime_type": self.media_type}


Buttons = Sequence[Sequence[Button]]


@dataclass(frozen=True, slots=True)
class Content:
    """What a message shows, in one of its versions."""

    text: str = ""
    """The caption, if there is a file."""
    entities: Sequence[Entity] = ()
    buttons: Buttons = ()
    file: StoredFile | None = None
    detected: Sequence[Entity] = ()
    """Those of `entities` that act without the sender having marked them, and every mention: what Telegram found in
    the plain text (`mention`, `bot_command`, `url`, `hashtag`, ...), and `text_mention`."""


@dataclass(eq=False, slots=True, kw_only=True)
class Message:
    """A message, in its present version."""

    chat: Chat = field(repr=False)
    id: int
    sender: Account
    date: int
    versions: list[Content]
    """Oldest first; the last is what people see."""
    reply_to: Message | None = field(default=None, repr=False)
    topic: int | None = None
    album: str | None = None
    """The album of which it is a part."""
    silent: bool = False
    edited_at: int | None = None
    deleted: bool = False
    reactions: tuple[str, ...] = ()

    @property
    def content(self) -> Content:
        return self.versions[-1]

    @property
    def text(self) -> str:
        return self.content.text

    @property
    def entities(self) -> Sequence[Entity]:
        return self.content.entities

    @property
    def detected(self) -> Sequence[Entity]:
        return self.content.detected

    @property
    def buttons(self) -> Buttons:
        return self.content.buttons

    @property
    def file(self) -> StoredFile | None:
        return self.content.file

    @property
    def edits(self) -> list[Content]:
        """The earlier versions, oldest first."""
        return self.versions[:-1]

    def to_json(self, *, with_reply: bool = True) -> dict[str, Any]:
        content = self.content
        fields: dict[str, Any] = {"message_id": self.id, "date": self.date, "from": self.sender.to_json()}
        fields["chat"] = self.chat.to_json()
        texts, entities = ("caption", "caption_entities") if content.file else ("text", "entities")
        if content.file:
            fields[content.file.kind] = content.file.to_json()
        if content.text or not content.file:
            fields[texts] = content.text
        if content.entities:
            fields[entities] = [entity.to_json() for entity in content.entities]
        if content.buttons:
            fields["reply_markup"] = buttons_json(content.buttons)
        if self.album is not None:
            fields["media_group_id"] = self.album
        if self.edited_at is not None:
            fields["edit_date"] = self.edited_at
        if self.topic is not None:
            fields |= {"message_thread_id": self.topic, "is_topic_message": True}
        if self.reply_to and with_reply:
            fields["reply_to_message"] = self.reply_to.to_json(with_reply=False)
        elif with_reply and (topic := (self.chat.topics or {}).get(self.topic or 0)):
            fields["reply_to_message"] = topic.to_json(self.chat)
        return fields


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a group. Its messages that are no replies appear as replies to its first message, as at Telegram."""

    id: int
    name: str
    creator: Account
    date: int

    def to_json(self, chat: Chat) -> dict[str, Any]:
        fields: dict[str, Any] = {"message_id": self.id, "date": self.date, "from": self.creator.to_json()}
        fields |= {"chat": chat.to_json(), "message_thread_id": self.id, "is_topic_message": True}
        return {**fields, "forum_topic_created": {"name": self.name, "icon_color": 0x6FB9F0}}


@dataclass(frozen=True, slots=True)
class ChatAction:
    """What the bot showed that it is doing."""

    action: str
    at: float
    topic: int | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Chat:
    """A private chat or a group."""

    id: int
    kind: ChatKind
    title: str
    username: str | None = None
    topics: dict[int, Topic] | None = None
    """Topics by id, which is that of their first message; None if the group has none. The general topic has no id."""
    members: dict[int, str] = field(default_factory=dict[int, str])
    """Status of each member: `member`, `administrator`, `creator`, `left`, `kicked`."""
    messages: list[Message] = field(default_factory=list[Message], repr=False)
    """Oldest first, deleted ones included."""
    drafts: dict[int, Content] = field(default_factory=dict[int, Content])
    """What `sendMessageDraft` shows, by the draft's id; gone when the bot sends a message."""
    actions: list[ChatAction] = field(default_factory=list[ChatAction])
    clock: Callable[[], float] = time.monotonic
    deleted: bool = False
    migrated_to: int | None = None

    @property
    def visible(self) -> list[Message]:
        """The messages that people see."""
        return [message for message in self.messages if not message.deleted]

    @property
    def replies(self) -> list[Message]:
        """Those of them that the bot sent."""
        return [message for message in self.visible if message.sender.is_bot]

    def find(self, message_id: int) -> Message | None:
        """Return a message that is not deleted."""
        return next((one for one in reversed(self.messages) if one.id == message_id and not one.deleted), None)

    @property
    def typing(self) -> bool:
        """Whether people see that the bot is typing: for five seconds, or until its next message."""
        latest = self.actions[-1] if self.actions else None
        return latest is not None and latest.action == "typing" and self.clock() - latest.at < _TYPING_SECONDS

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"id": self.id, "type": self.kind}
        fields["first_name" if self.kind == "private" else "title"] = self.title
        if self.username:
            fields["username"] = self.username
        if self.topics is not None:
            fields["is_forum"] = True
        return fields


def buttons_json(buttons: Buttons) -> dict[str, Any]:
    return {"inline_keyboard": [[button.to_json() for button in row] for row in buttons]}
