"""Whether a text is meant for the bot, and the text without the bot's name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telegram import MessageEntity, User

_MARKED = re.compile(r"(?<![\w/@])(?:@\w+|/\w+(?:@\w+)?)", re.ASCII)
_UNIT = 2
"""Bytes of a UTF-16 code unit, in which Telegram counts."""


def utf8_text(text: str) -> str:
    """Return the text with a mark for each half of a surrogate pair, which JSON may have and UTF-8 may not."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def entities_in(text: str) -> list[MessageEntity]:
    """Return the commands and mentions of a text that has no entities. Telegram marks them all; other servers that
    speak its Bot API may not."""
    return [
        MessageEntity(
            MessageEntity.MENTION if found[0].startswith("@") else MessageEntity.BOT_COMMAND,
            offset=len(text[: found.start()].encode("utf-16-le", "surrogatepass")) // _UNIT,
            length=len(found[0]),
        )
        for found in _MARKED.finditer(text)
    ]


class Mentions:
    """The names of bots in a text."""

    def __init__(self, text: str, entities: Sequence[MessageEntity], me: User) -> None:
        self._units = text.encode("utf-16-le", "surrogatepass")
        self._name = f"@{me.username}".lower()
        self._me = me
        self.addressed = False
        """Whether it begins with a command, or names the bot."""
        self.for_another = False
        """Whether it begins with a command that names another bot."""
        cuts = [cut for entity in entities if (cut := self._read(entity))]
        self.text = utf8_text(self._without(cuts).decode("utf-16-le", "surrogatepass"))

    def _read(self, entity: MessageEntity) -> tuple[int, int] | None:
        """Note what the entity says. Return the part of the text that names the bot, in bytes."""
        start, end = entity.offset * _UNIT, (entity.offset + entity.length) * _UNIT
        named = self._units[start:end].decode("utf-16-le", "replace").lower()
        match entity.type:
            case MessageEntity.MENTION if named == self._name:
                self.addressed = True
                return start, end
            case MessageEntity.TEXT_MENTION if entity.user and entity.user.id == self._me.id:
                self.addressed = True
                return start, end
            case MessageEntity.BOT_COMMAND:
                return self._command(named, start, end)
            case _:
                return None

    def _command(self, named: str, start: int, end: int) -> tuple[int, int] | None:
        command, at, name = named.partition("@")
        if at and f"@{name}" != self._name:
            self.for_another = self.for_another or start == 0
            return None
        if at or start == 0:
            self.addressed = True
        return (start + len(command) * _UNIT, end) if at else None

    def _without(self, cuts: list[tuple[int, int]]) -> bytes:
        if not cuts:
            return self._units
        units = self._units
        for start, end in sorted(cuts, reverse=True):
            before, after = units[:start], units[end:]
            if not before or before.endswith(_SPACES):
                after = after.removeprefix(_SPACE)
            units = before + after
        return units.decode("utf-16-le", "surrogatepass").strip().encode("utf-16-le", "surrogatepass")


_SPACE = " ".encode("utf-16-le")
_SPACES = (_SPACE, "\n".encode("utf-16-le"))
