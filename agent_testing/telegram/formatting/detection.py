"""What Telegram finds in a plain text by itself: mentions, commands, addresses, tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..model import Entity
from .utf16 import length, utf16_offsets

_GENERIC_DOMAINS = "app|com|dev|edu|gov|info|int|net|org|online|shop|site|store|tech|xyz"
_PATTERNS = {
    "url": re.compile(
        rf"(?:(?:https?|ftp|tg|ton)://[^\s<>\"]+|(?<![\w@.-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+"
        rf"(?:{_GENERIC_DOMAINS}|[a-z]{{2}})(?![\w@-])(?::\d+)?(?:[/?#][^\s<>\"]*)?)",
        re.IGNORECASE,
    ),
    "email": re.compile(r"(?<![\w.+-])[\w.+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}\b"),
    "mention": re.compile(r"\B@[A-Za-z0-9_]{3,32}(?!\w)"),
    "bot_command": re.compile(r"(?<![\w/<>])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?(?![\w/<>])"),
    "hashtag": re.compile(r"(?<!\w)#(?=\w*[^\W\d_])\w{1,256}(?![\w#])"),
    "cashtag": re.compile(r"(?<![\w$])\$[A-Z]{1,8}(?![\w$])"),
}
_UNTOUCHABLE = frozenset(("code", "pre", "text_link", "text_mention"))
_TRAILING = ".,:;!?'\")]}"


def detect(text: str, marked: Sequence[Entity]) -> list[Entity]:
    """Return what Telegram finds outside code and links, in the order of the text, without overlaps."""
    found = list[Entity]()
    for entity in _candidates(text):
        taken = [*(one for one in marked if one.type in _UNTOUCHABLE), *found]
        if not any(entity.offset < one.end and one.offset < entity.end for one in taken):
            found.append(entity)
    return sorted(found, key=lambda entity: entity.offset)


def _candidates(text: str) -> Iterator[Entity]:
    offsets = utf16_offsets(text)
    for kind, pattern in _PATTERNS.items():
        for match in pattern.finditer(text):
            part = match.group().rstrip(_TRAILING) if kind == "url" else match.group()
            yield Entity(kind, offsets[match.start()], length(part))
