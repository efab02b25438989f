"""Markdown as a message of Telegram: plain text, and entities that say how parts of it look.

No text can forge markup, because Telegram parses none. What Telegram finds in plain text by itself (mentions, commands,
tags, addresses of its own) gets a character that shows nothing after its first sign. Addresses of the web stay links.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .characters import WORD_JOINER, beginning, utf16_length, utf16_offsets
from .reader import read
from .telegram_writer import Span, SpanType, TelegramWriter

TELEGRAM_LIMIT = 4096
"""UTF-16 code units of a message."""
_NOTHING = "…"
"""The text of a message that shows nothing: Telegram refuses an empty one."""
_TRIGGER = re.compile(
    r"(?<![A-Za-z0-9_])@(?=\w)|(?<![A-Za-z0-9_/])/(?=\w)|(?<![A-Za-z0-9_])#(?=[\w\u200c\xb7])"
    r"|(?<![A-Za-z0-9_])\$(?=[A-Z0-9])|(?<!http)(?<!https):(?=//)"
)
_SLASH = re.compile(r"/(?<![A-Za-z0-9_/].)")


@dataclass(frozen=True, slots=True)
class Entity:
    """How a part of a text looks. Offset and length are UTF-16 code units."""

    type: SpanType
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class TelegramText:
    """What `sendMessage` takes without a parse mode."""

    text: str
    entities: tuple[Entity, ...] = ()


def telegram_text(markdown: str) -> TelegramText:
    """Return the Markdown of one message as Telegram takes it. What exceeds the length of a message is left out, so
    pass a longer text through `split_telegram` before. A table has columns if there is room."""
    text, spans = written(markdown[:TELEGRAM_LIMIT], aligned=True)
    if utf16_length(text) > TELEGRAM_LIMIT:
        text, spans = written(markdown[:TELEGRAM_LIMIT], aligned=False)
    offsets = utf16_offsets(text)
    end = len(beginning(text, TELEGRAM_LIMIT).rstrip())
    if not end:
        return TelegramText(_NOTHING)
    spans = [replace(span, end=min(span.end, end)) for span in spans if span.start < end]
    return TelegramText(text[:end], tuple(_entity(span, offsets) for span in spans))


def telegram_measure(text: str, *, code: bool) -> int:
    """Return the most UTF-16 code units that a part of a Markdown text takes in a message."""
    triggers = sum(map(text.count, ("@", "#", "$", "://"))) + len(_SLASH.findall(text))
    return utf16_length(text) + triggers + 3 * (text.count("\t") + (0 if code else text.count("|")))


def written(markdown: str, *, aligned: bool) -> tuple[str, list[Span]]:
    """Return the text and what looks different in it, in tables with columns if they shall be aligned."""
    writer = TelegramWriter(aligned=aligned)
    read(markdown, writer)
    text, spans = writer.message()
    blank = len(text) - len(text.lstrip())
    if spans:
        blank = min(blank, spans[0].start)
    moved = [replace(span, start=span.start - blank, end=span.end - blank) for span in spans]
    return _disarmed(text[blank:], moved)


def _disarmed(text: str, spans: Sequence[Span]) -> tuple[str, list[Span]]:
    """Take from Telegram what it would find in the text by itself: it looks into nothing that is code or a link."""
    literal = [span for span in spans if span.type in ("code", "pre") or span.url == text[span.start : span.end]]
    starts = [span.start for span in literal]

    def is_literal(at: int) -> bool:
        nearest = bisect_right(starts, at) - 1
        return nearest >= 0 and at < literal[nearest].end

    places = [match.end() for match in _TRIGGER.finditer(text) if not is_literal(match.start())]
    parts = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    moved = [
        replace(span, start=span.start + bisect_right(places, span.start), end=span.end + bisect_left(places, span.end))
        for span in spans
    ]
    return WORD_JOINER.join(parts), moved


def _entity(span: Span, offsets: Sequence[int]) -> Entity:
    start = offsets[span.start]
    end = offsets[span.end]
    return Entity(span.type, start, end - start, span.url, span.language)
