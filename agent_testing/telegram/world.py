"""The state of a Telegram with one bot. All of it is guarded by one condition, which tells of every change."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .limits import RateLimiter, TelegramLimits
from .model import Account, Chat, ChatKind, Content, FileKind, Message, StoredFile
from .updates import UpdateQueue

_FIRST_USER_ID = 1001
_FIRST_GROUP_ID = 4001
_FIRST_SUPERGROUP_ID = 1_000_000_001


@dataclass(frozen=True, slots=True)
class CallbackAnswer:
    """What a person sees after a press."""

    text: str = ""
    alert: bool = False
    url: str | None = None


@dataclass(eq=False, slots=True)
class Press:
    """A press of a button; `answer` is there once the bot has acknowledged it."""

    id: str
    sender: Account
    message: Message
    data: str
    at: float
    answer: CallbackAnswer | None = None


@dataclass(slots=True)
class Webhook:
    url: str = ""


@dataclass(slots=True)
class World:
    """Accounts, chats, files and what waits for the bot."""

    bot: Account
    limits: TelegramLimits
    clock: Callable[[], float] = time.monotonic
    reads_all_messages: bool = False
    """Whether the bot's privacy mode is off."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    accounts: dict[int, Account] = field(default_factory=dict[int, Account])
    chats: dict[int, Chat] = field(default_factory=dict[int, Chat])
    files: dict[str, StoredFile] = field(default_factory=dict[str, StoredFile])
    presses: dict[str, Press] = field(default_factory=dict[str, Press])
    commands: dict[tuple[str, str], list[dict[str, str]]] = field(
        default_factory=dict[tuple[str, str], list[dict[str, str]]]
    )
    """By scope, as compact JSON, and language."""
    webhook: Webhook = field(default_factory=Webhook)
    poll_wanted: Callable[[], None] = lambda: None
    """Called when an update arrives, from any thread."""
    limiter: RateLimiter = field(init=False)
    updates: UpdateQueue = field(init=False)
    _ids: dict[str, itertools.count[int]] = field(default_factory=dict[str, "itertools.count[int]"])

    def __post_init__(self) -> None:
        self.limiter = RateLimiter(self.limits, self.clock)
        self.updates = UpdateQueue(self.clock, self._update_arrived)
        self.accounts[self.bot.id] = self.bot

    def _update_arrived(self) -> None:
        self.changed.notify_all()
        self.poll_wanted()

    def next_id(self, kind: str, first: int = 1) -> int:
        return next(self._ids.setdefault(kind, itertools.count(first)))

    # ---------------------------------------------------------------- accounts and chats

    def new_user_id(self) -> int:
        return self.next_id("user", _FIRST_USER_ID)

    def new_chat_id(self, kind: ChatKind) -> int:
        if kind == "group":
            return -self.next_id("group", _FIRST_GROUP_ID)
        return -1_000_000_000_000 - self.next_id("supergroup", _FIRST_SUPERGROUP_ID)

    # ---------------------------------------------------------------- messages

    def post(
        self,
        chat: Chat,
        sender: Account,
        content: Content,
        *,
        reply_to: Message | None = None,
        topic: int | None = None,
        album: str | None = None,
        silent: bool = False,
    ) -> Message:
        """Add a message to a chat."""
        numbers = str(chat.id) if chat.kind == "supergroup" else "messages"  # as at Telegram, where others share them
        message = Message(
            chat=chat,
            id=self.next_id(numbers),
            sender=sender,
            date=int(time.time()),
            versions=[content],
            reply_to=reply_to,
            topic=topic,
            album=album,
            silent=silent,
        )
        chat.messages.append(message)
        if sender is self.bot:
            chat.actions.clear()
            chat.drafts.clear()
        self.changed.notify_all()
        return message

    def change(self, message: Message, content: Content) -> None:
        """Give a message a new version."""
        message.versions.append(content)
        message.edited_at = int(time.time())
        self.changed.notify_all()

    def delete(self, messages: Sequence[Message]) -> None:
        for message in messages:
            message.deleted = True
        self.changed.notify_all()

    # ---------------------------------------------------------------- files and presses

    def store_file(
        self, kind: FileKind, name: str, media_type: str, content: bytes, *, size: int | None = None
    ) -> StoredFile:
        number = self.next_id("file")
        file_id = f"BQACAgIAAxkBAAI{number:06d}{secrets.token_urlsafe(24)}"
        suffix = name.rpartition(".")[2] if "." in name else {"photo": "jpg", "voice": "oga"}.get(kind, "bin")
        path = f"{kind}s/file_{number}.{suffix}"
        stored = StoredFile(file_id, kind, name, media_type, content, len(content) if size is None else size, path)
        self.files[file_id] = stored
        return stored

    def press(self, sender: Account, message: Message, data: str) -> Press:
        press = Press(str(self.next_id("press", 4_000_000_001)), sender, message, data, self.clock())
        self.presses[press.id] = press
        body: dict[str, Any] = {"id": press.id, "from": sender.to_json(), "message": message.to_json()}
        body |= {"chat_instance": str(abs(message.chat.id) * 31), "data": data}
        self.updates.add("callback_query", body)
        return press

    def member_update(self, chat: Chat, user: Account, old: str, new: str) -> None:
        """Report that a person's status has changed, or in a private chat the bot's own."""
        about = self.bot if chat.kind == "private" else user
        body: dict[str, Any] = {"chat": chat.to_json(), "from": user.to_json(), "date": int(time.time())}
        body["old_chat_member"] = {"user": about.to_json(), "status": old}
        body["new_chat_member"] = {"user": about.to_json(), "status": new}
        self.updates.add("my_chat_member" if about is self.bot else "chat_member", body)
        self.changed.notify_all()
