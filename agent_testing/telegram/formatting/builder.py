"""A text that grows while its markup is read, and the entities that were found in it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..api_error import ApiError, bad_request
from ..model import Account, Entity
from .utf16 import length

_PERSON = re.compile(r"tg:(?://)?user/?\?id=(\d+)", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:(https?|ftp|tonsite)://)?([^\s/?#]+\.[^\s/?#.]+)(\S*)", re.IGNORECASE)


def unparsable(reason: str) -> ApiError:
    return bad_request(f"can't parse entities: {reason}")


class TextBuilder:
    """Collects text and entities; empty entities are left out."""

    def __init__(self, accounts: Mapping[int, Account]) -> None:
        self.entities: list[Entity] = []
        self.size = 0
        """UTF-16 code units so far."""
        self._accounts = accounts
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def append(self, text: str) -> None:
        self._parts.append(text)
        self.size += length(text)

    def since(self, offset: int) -> str:
        """Return the text from an offset on."""
        return self.text.encode("utf-16-le")[offset * 2 :].decode("utf-16-le")

    def close(self, kind: str, start: int, *, language: str | None = None, emoji: str | None = None) -> None:
        """Add an entity from an offset to the end."""
        if self.size > start:
            self.entities.append(
                Entity(kind, start, self.size - start, language=language or None, custom_emoji_id=emoji)
            )

    def close_link(self, start: int, url: str) -> None:
        """Add a link, or the mention of a person that a link can be. Telegram ignores what is no address."""
        if self.size == start:
            return
        span = self.size - start
        if person := _PERSON.fullmatch(url):
            if account := self._accounts.get(int(person[1])):
                self.entities.append(Entity("text_mention", start, span, user=account))
        elif url.lower().startswith(("tg://", "ton://", "mailto:", "tel:")):
            self.entities.append(Entity("text_link", start, span, url=url))
        elif address := _ADDRESS.fullmatch(url):
            scheme = address[1] or "http"
            host = address[2]
            rest = address[3]
            path = rest if rest.startswith("/") else f"/{rest}"
            self.entities.append(Entity("text_link", start, span, url=f"{scheme.lower()}://{host}{path}"))
