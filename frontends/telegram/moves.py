"""Groups that have become supergroups: Telegram gives them another number, and numbers their messages anew. For the
rest they stay the chats that they were, with messages whose ids grow."""

from __future__ import annotations

from dataclasses import replace

from telegram import Message

from ..platform import Chat, MessageGone, Update
from .addresses import MOVED, address_of


class Moves:
    """The groups that have moved, as far as is known."""

    def __init__(self) -> None:
        self._now: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def follow(self, chat: int, number: int) -> None:
        """Note the number that a group has now, for what is sent to it."""
        self._now[chat] = number

    def note(self, chat: str, number: str) -> None:
        """Note that what comes under this number is of the group too."""
        self._now[int(chat)] = int(number)
        self._before[int(number)] = int(chat)

    def now(self, chat: int) -> int:
        """Return the number that a chat has now."""
        return self._now.get(chat, chat)

    def as_before(self, update: Update) -> Update:
        """Return an update as one of the chat that its group has been all the time."""
        if update.kind == "move":
            self.note(update.chat.id, update.text)
            return update
        number, topic = address_of(update.chat)
        if (before := self._before.get(number)) is None:
            return update
        return replace(
            update,
            chat=replace(update.chat, id=str(before) if topic is None else f"{before}/{topic}"),
            message_id=str(int(update.message_id) + MOVED),
            reply_to=None if update.reply_to is None else str(int(update.reply_to) + MOVED),
        )


def id_of(chat: Chat, sent: Message) -> int:
    """Return the id of a message that was sent to a chat, whose number may have changed by that."""
    return sent.message_id + (MOVED if sent.chat.id != address_of(chat)[0] else 0)


def number_in(chat: int, message_id: int, number: int) -> int:
    """Return the number of a message in the chat of this name, which has this `number` now. Raises MessageGone if it is
    from before a move: a bot cannot change it any more."""
    if message_id >= MOVED:
        return message_id - MOVED
    if number != chat:
        raise MessageGone("the message is from before its group has become a supergroup")
    return message_id
