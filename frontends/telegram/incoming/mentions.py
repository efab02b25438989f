"""Whether a text is meant for the bot, and the text without the bot's name and with the addresses of its links."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telegram import MessageEntity, User

_MARKED = re.compile(r"(?<![\w/@])(?:@\w+|/\w+(?:@\w+)?)", re.ASCII)
LINK_CHARACTERS = 2000
"""A longer address is left out."""
_SCHEME = re.compile("https?://", re.IGNORECASE)
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
        links = [link for entity in entities if (link := self._link(entity, cuts))]
        self.text = utf8_text(self._edited(cuts, links).decode("utf-16-le", "surrogatepass"))

    def _read(self, entity: MessageEntity) -> tuple[int, int] | None:
        """Note what the entity says. Return the part of the text that names the bot, in bytes."""
        start = entity.offset * _UNIT
        end = (entity.offset + entity.length) * _UNIT
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

    def _link(self, entity: MessageEntity, cuts: Sequence[tuple[int, int]]) -> tuple[int, bytes] | None:
        """Return the address behind a linked text, and where it goes; None if the text says it."""
        start = entity.offset * _UNIT
        end = (entity.offset + entity.length) * _UNIT
        url = utf8_text("".join((entity.url or "").split()))
        if entity.type != MessageEntity.TEXT_LINK or not 0 < len(url) <= LINK_CHARACTERS:
            return None
        if not 0 <= start < end <= len(self._units) or any(begin < end < last for begin, last in cuts):
            return None
        label = self._units[start:end].decode("utf-16-le", "replace")
        return None if _without_scheme(label) == _without_scheme(url) else (end, f" ({url})".encode("utf-16-le"))

    def _edited(self, cuts: Sequence[tuple[int, int]], links: Sequence[tuple[int, bytes]]) -> bytes:
        units = self._units
        edits = [*((start, end, b"") for start, end in cuts), *((end, end, added) for end, added in links)]
        for start, end, added in sorted(edits, reverse=True):
            before = units[:start]
            after = units[end:]
            if not added and (not before or before.endswith(_SPACES)):
                after = after.removeprefix(_SPACE)
            units = before + added + after
        if not cuts:
            return units
        return units.decode("utf-16-le", "surrogatepass").strip().encode("utf-16-le", "surrogatepass")


def _without_scheme(address: str) -> str:
    """Return an address as people type it."""
    return _SCHEME.sub("", address.strip(), count=1).rstrip("/").lower()


_SPACE = " ".encode("utf-16-le")
_SPACES = (_SPACE, "\n".encode("utf-16-le"))
