"""What people do: write, edit, send files, press buttons, block the bot, delete a group."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .formatting import detect
from .model import Account, Button, Chat, Content, Entity, Message, StoredFile, Topic
from .world import Press, World

_GONE = frozenset(("left", "kicked"))


@dataclass(eq=False, slots=True, kw_only=True)
class User(Account):
    """A person. Chats and messages that they name must be theirs to see."""

    world: World = field(repr=False)

    @property
    def chat(self) -> Chat:
        """Their private chat with the bot."""
        with self.world.changed:
            if self.id not in self.world.chats:
                self.world.chats[self.id] = Chat(
                    id=self.id, kind="private", title=self.name, username=self.username, clock=self.world.clock
                )
            return self.world.chats[self.id]

    def write(
        self,
        chat: Chat,
        text: str,
        *,
        reply_to: Message | None = None,
        topic: int | None = None,
        entities: Sequence[Entity] = (),
    ) -> Message:
        """Send a text. What a client finds in it by itself is marked as at Telegram."""
        return self._send(chat, _written(text, entities), reply_to, topic)

    def edit(self, message: Message, text: str) -> None:
        """Change an own message."""
        with self.world.changed:
            if message.sender is not self:
                raise ValueError("people edit their own messages only")
            self.world.change(message, replace(_written(text, ()), file=message.file))
            if self._bot_sees(message):
                self.world.updates.add("edited_message", message.to_json())

    def delete(self, message: Message) -> None:
        """Delete a message. No bot learns of it."""
        with self.world.changed:
            self.world.delete([message])

    def send_document(
        self,
        chat: Chat,
        name: str,
        content: bytes,
        *,
        media_type: str = "application/octet-stream",
        caption: str = "",
        size: int | None = None,
        topic: int | None = None,
    ) -> Message:
        """Send a file. `size` is what Telegram says of it, if that is not the truth."""
        with self.world.changed:
            file = self.world.store_file("document", name, media_type, content, size=size)
            return self._send_file(chat, file, caption, topic)

    def send_photo(self, chat: Chat, content: bytes, *, caption: str = "", topic: int | None = None) -> Message:
        with self.world.changed:
            file = self.world.store_file("photo", "photo.jpg", "image/jpeg", content)
            return self._send_file(chat, file, caption, topic)

    def send_album(self, chat: Chat, photos: Sequence[bytes], *, caption: str = "") -> list[Message]:
        """Send photos as one album: a message each, of which the first has the caption."""
        with self.world.changed:
            album = str(self.world.next_id("album", 13_000_000_000_000_001))
            files = [self.world.store_file("photo", "photo.jpg", "image/jpeg", photo) for photo in photos]
            captions = (caption, *[""] * len(photos))
            return [
                self._send_file(chat, file, words, None, album) for file, words in zip(files, captions, strict=False)
            ]

    def send_voice(self, chat: Chat, content: bytes, *, caption: str = "", topic: int | None = None) -> Message:
        with self.world.changed:
            file = self.world.store_file("voice", "voice.oga", "audio/ogg", content)
            return self._send_file(chat, file, caption, topic)

    def press(self, message: Message, button: str, *, seconds: float | None = 10.0) -> Press:
        """Press the button with this label or data, and wait until the bot acknowledges it; None does not wait.

        Raises LookupError if there is no such button, TimeoutError if no acknowledgement comes.
        """
        with self.world.changed:
            self._check_membership(message.chat, None)
            found = _button(message, button)
            press = self.world.press(self, message, found.data or "")
            if seconds is not None and not self.world.changed.wait_for(lambda: press.answer is not None, seconds):
                raise TimeoutError(f"{button!r} was not acknowledged within {seconds:g} s")
            return press

    def press_forged(self, message: Message, data: str) -> Press:
        """Press what is no button of the message, as a changed client can. Does not wait."""
        with self.world.changed:
            return self.world.press(self, message, data)

    def block(self) -> None:
        """Block the bot."""
        self._change_block("kicked")

    def unblock(self) -> None:
        self._change_block("member")

    def deactivate(self) -> None:
        """Delete the account."""
        with self.world.changed:
            self.deactivated = True
            self.name = ""
            self.username = None
            self.world.changed.notify_all()

    # ---------------------------------------------------------------- inside

    def _change_block(self, status: str) -> None:
        with self.world.changed:
            old = "kicked" if self.has_blocked_bot else "member"
            self.has_blocked_bot = status == "kicked"
            self.world.member_update(self.chat, self, old, status)

    def _send_file(
        self, chat: Chat, file: StoredFile, caption: str, topic: int | None, album: str | None = None
    ) -> Message:
        written = _written(caption, ())
        return self._send(chat, replace(written, file=file), None, topic, album)

    def _send(
        self, chat: Chat, content: Content, reply_to: Message | None, topic: int | None, album: str | None = None
    ) -> Message:
        with self.world.changed:
            self._check_membership(chat, topic)
            if chat.kind == "private":
                self.started = True
                if self.has_blocked_bot:
                    self.unblock()
            message = self.world.post(chat, self, content, reply_to=reply_to, topic=topic, album=album)
            if self._bot_sees(message):
                self.world.updates.add("message", message.to_json())
            return message

    def _check_membership(self, chat: Chat, topic: int | None) -> None:
        if chat.id != self.id if chat.kind == "private" else chat.members.get(self.id, "left") in _GONE:
            raise ValueError(f"{self.name} is not in {chat.title!r}")
        if chat.deleted:
            raise ValueError(f"{chat.title!r} is deleted")
        if topic is not None and topic not in (chat.topics or {}):
            raise ValueError(f"{chat.title!r} has no topic {topic}")

    def _bot_sees(self, message: Message) -> bool:
        """Whether the bot gets a message: in groups, with its privacy mode, only what is meant for it."""
        world = self.world
        chat = message.chat
        if chat.kind == "private":
            return True
        status = chat.members.get(world.bot.id, "left")
        if status in _GONE:
            return False
        if world.reads_all_messages or status == "administrator":
            return True
        if message.reply_to and message.reply_to.sender is world.bot:
            return True
        return any(self._means_bot(entity, message.text) for entity in message.entities)

    def _means_bot(self, entity: Entity, text: str) -> bool:
        if entity.user is self.world.bot:
            return True
        part = text.encode("utf-16-le")[entity.offset * 2 : entity.end * 2].decode("utf-16-le").lower()
        name = f"@{self.world.bot.username}".lower()
        if entity.type == "bot_command":
            return "@" not in part or part.endswith(name)
        return entity.type == "mention" and part == name


@dataclass(eq=False, slots=True, kw_only=True)
class Group(Chat):
    """A group or a supergroup."""

    world: World = field(repr=False)

    def add(self, user: Account, status: str = "member") -> None:
        """Make a person, or the bot, a member or an administrator."""
        with self.world.changed:
            old = self.members.get(user.id, "left")
            self.members[user.id] = status
            self.world.member_update(self, user, old, status)

    def kick(self, user: Account) -> None:
        """Remove a person, or the bot."""
        self.add(user, "kicked")

    def create_topic(self, name: str, creator: Account) -> int:
        """Return the new topic's id."""
        with self.world.changed:
            if self.topics is None:
                raise ValueError(f"{self.title!r} has no topics")
            topic = Topic(self.world.next_id(str(self.id)), name, creator, int(time.time()))
            self.topics[topic.id] = topic
            return topic.id

    def delete_topic(self, topic: int) -> None:
        with self.world.changed:
            (self.topics or {}).pop(topic)
            self.world.delete([message for message in self.messages if message.topic == topic])

    def migrate(self) -> Group:
        """Make a supergroup of a group, which has another id, and return it."""
        with self.world.changed:
            number = self.world.new_chat_id("supergroup")
            group = Group(
                id=number,
                kind="supergroup",
                title=self.title,
                members=dict(self.members),
                clock=self.clock,
                world=self.world,
            )
            self.world.chats[number] = group
            self.migrated_to = number
            body = {"message_id": self.world.next_id("messages"), "date": int(time.time()), "chat": self.to_json()}
            self.world.updates.add("message", {**body, "migrate_to_chat_id": number})
            return group

    def delete(self) -> None:
        """Delete the group."""
        with self.world.changed:
            self.deleted = True
            self.world.changed.notify_all()


def _written(text: str, entities: Sequence[Entity]) -> Content:
    found = detect(text, entities)
    everything = sorted([*entities, *found], key=lambda entity: entity.offset)
    return Content(text, everything, detected=found)


def _button(message: Message, wanted: str) -> Button:
    buttons = [button for row in message.buttons for button in row]
    for button in buttons:
        if wanted in (button.label, button.data):
            return button
    raise LookupError(f"no button {wanted!r}; there are {[button.label for button in buttons]}")
