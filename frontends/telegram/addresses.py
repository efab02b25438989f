"""Which chat of Telegram a chat of the port is, and which of its messages is the newest."""

from __future__ import annotations

from ..platform import Chat

_FIRST_SUPERGROUP = -1_000_000_000_000
"""Supergroups have this number or a lower one."""
MOVED = 1_000_000_000_000
"""Added to the ids of messages of a group since it has become a supergroup, which numbers them anew."""


def address_of(chat: Chat) -> tuple[int, int | None]:
    """Return the number of a chat, and of its topic."""
    number, _, topic = chat.id.partition("/")
    return int(number), int(topic) if topic else None


class NewestMessages:
    """The highest message id that is known. A supergroup numbers its own messages, and the bot those of all its other
    chats together."""

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}

    def note(self, chat: Chat, message_id: int) -> None:
        numbering = _numbering(chat, moved=message_id >= MOVED)
        self._newest[numbering] = max(message_id, self._newest.get(numbering, 0))

    def known(self, chat: Chat) -> str | None:
        newest = self._newest.get(_numbering(chat, moved=True), self._newest.get(_numbering(chat, moved=False)))
        return None if newest is None else str(newest)


def _numbering(chat: Chat, *, moved: bool) -> int:
    number, _ = address_of(chat)
    return number if moved or number <= _FIRST_SUPERGROUP else 0
