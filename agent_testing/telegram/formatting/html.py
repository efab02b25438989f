"""The parse mode HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..model import Account, Entity
from .builder import TextBuilder, unparsable

_TYPES = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "tg-emoji": "custom_emoji",
}
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_REFERENCE = re.compile(r"&(?:#(\d+)|#x([0-9A-Fa-f]+)|(lt|gt|amp|quot));?")
_NAME = re.compile(r"[^\s>]*")
_ATTRIBUTE_NAME = re.compile(r"[^\s=>]*")
_BLANK = re.compile(r"\s*")
_UNQUOTED = re.compile(r"[A-Za-z0-9.-]*")


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    start: int
    attributes: Mapping[str, str]


def parse_html(source: str, accounts: Mapping[int, Account]) -> tuple[str, list[Entity]]:
    """Return the text and its entities. Raises ApiError as Telegram does."""
    return _Html(source, accounts).parse()


class _Html:
    def __init__(self, source: str, accounts: Mapping[int, Account]) -> None:
        self._source = source
        self._at = 0
        self._result = TextBuilder(accounts)
        self._open: list[_Tag] = []

    def parse(self) -> tuple[str, list[Entity]]:
        while self._at < len(self._source):
            if self._source[self._at] != "<":
                self._copy()
            elif self._source.startswith("</", self._at):
                self._end_tag()
            else:
                self._start_tag()
        if self._open:
            raise unparsable(f'Can\'t find end tag corresponding to start tag "{self._open[-1].name}"')
        return self._result.text, _merged(self._result.entities)

    def _copy(self) -> None:
        end = self._source.find("<", self._at)
        end = len(self._source) if end < 0 else end
        text = _REFERENCE.sub(_decoded, self._source[self._at : end])
        if any("\ud800" <= character <= "\udfff" for character in text):
            reason = "Text contains invalid Unicode characters after decoding HTML entities"
            raise unparsable(f"{reason}, check for unmatched surrogate code units")
        self._result.append(text)
        self._at = end

    def _offset(self, at: int) -> str:
        return f"at byte offset {len(self._source[:at].encode('utf-8', 'surrogatepass'))}"

    def _read(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._source, self._at)
        self._at = found.end() if found else self._at
        return found[0] if found else ""

    @property
    def _next(self) -> str:
        return self._source[self._at : self._at + 1]

    # ---------------------------------------------------------------- start

    def _start_tag(self) -> None:
        begin = self._at
        self._at += 1
        name = self._read(_NAME).lower()
        if not self._next:
            raise unparsable(f"Unclosed start tag {self._offset(begin)}")
        if name not in _TYPES:
            raise unparsable(f'Unsupported start tag "{name}" {self._offset(begin)}')
        attributes = self._attributes(name, begin)
        if name == "span" and attributes.get("class") != "tg-spoiler":
            raise unparsable(f'Tag "span" must have class "tg-spoiler" {self._offset(begin)}')
        self._open.append(_Tag(name, self._result.size, attributes))

    def _attributes(self, tag: str, begin: int) -> dict[str, str]:
        attributes = dict[str, str]()
        while True:
            self._read(_BLANK)
            if self._next == ">":
                self._at += 1
                return attributes
            if not self._next:
                raise unparsable(f"Unclosed start tag {self._offset(begin)}")
            name = self._read(_ATTRIBUTE_NAME).lower()
            if not name:
                raise unparsable(f'Empty attribute name in the tag "{tag}" {self._offset(begin)}')
            self._read(_BLANK)
            attributes[name] = self._value(tag, begin) if self._next == "=" else ""

    def _value(self, tag: str, begin: int) -> str:
        self._at += 1
        self._read(_BLANK)
        if not (quote := self._next):
            raise unparsable(f'Unclosed start tag "{tag}" {self._offset(begin)}')
        if quote not in "\"'":
            token = self._at
            value = self._read(_UNQUOTED)
            if not self._next or not (self._next.isspace() or self._next == ">"):
                raise unparsable(f"Unexpected end of name token {self._offset(token)}")
            return value.lower()
        end = self._source.find(quote, self._at + 1)
        if end < 0:
            raise unparsable(f"Unclosed start tag {self._offset(begin)}")
        value = self._source[self._at + 1 : end]
        self._at = end + 1
        return _REFERENCE.sub(_decoded, value)

    # ---------------------------------------------------------------- end

    def _end_tag(self) -> None:
        begin = self._at
        if not self._open:
            raise unparsable(f"Unexpected end tag {self._offset(begin)}")
        self._at += 2
        name = self._read(_NAME).lower()
        self._read(_BLANK)
        if self._next != ">":
            raise unparsable(f"Unclosed end tag {self._offset(begin)}")
        self._at += 1
        tag = self._open.pop()
        if name and name != tag.name:
            expected = f'expected "</{tag.name}>", found "</{name}>"'
            raise unparsable(f"Unmatched end tag {self._offset(begin)}, {expected}")
        self._close(tag)

    def _close(self, tag: _Tag) -> None:
        match tag.name:
            case "a":
                self._result.close_link(tag.start, tag.attributes.get("href") or self._result.since(tag.start))
            case "tg-emoji":
                self._result.close("custom_emoji", tag.start, emoji=tag.attributes.get("emoji-id", ""))
            case "blockquote":
                kind = "expandable_blockquote" if "expandable" in tag.attributes else "blockquote"
                self._result.close(kind, tag.start)
            case "code" if tag.attributes.get("class", "").startswith("language-"):
                self._result.close("code", tag.start, language=tag.attributes["class"].removeprefix("language-"))
            case name:
                self._result.close(_TYPES[name], tag.start)


def _decoded(found: re.Match[str]) -> str:
    if found[3]:
        return _NAMED[found[3]]
    number = int(found[1]) if found[1] else int(found[2], 16)
    return chr(number) if 0 < number < 0x110000 else found[0]


def _merged(entities: list[Entity]) -> list[Entity]:
    """Make one entity of `pre` and a `code` with a language that covers the same; elsewhere `code` has no language."""
    spans = {(one.offset, one.end): one.language for one in entities if one.type == "code" and one.language}
    blocks = {(one.offset, one.end) for one in entities if one.type == "pre"}
    merged = list[Entity]()
    for one in entities:
        span = (one.offset, one.end)
        if one.type == "code" and one.language:
            if span not in blocks:
                merged.append(replace(one, language=None))
        elif one.type == "pre" and span in spans:
            merged.append(replace(one, language=spans[span]))
        else:
            merged.append(one)
    return merged
