"""The parse mode MarkdownV2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from ..model import Account, Entity
from .builder import TextBuilder, unparsable

_RESERVED = frozenset("_*[]()~`>#+-=|{}.!\n")
_MARKS = {"*": "Bold", "_": "Italic", "__": "Underline", "~": "Strikethrough", "||": "Spoiler"}
_CLOSERS = {
    **{kind: mark for mark, kind in _MARKS.items()},
    "Code": "`",
    "Pre": "```",
    "PreCode": "```",
    "TextUrl": "]",
    "CustomEmoji": "]",
}
_TYPES = {"PreCode": "pre", "BlockQuote": "blockquote"}
_CODE = frozenset(("Code", "Pre", "PreCode"))
_ADDRESS = re.compile(r"\(((?:\\[\x01-\x7e]|\\(?![\x01-\x7e])|[^)\\])*)\)")
_FENCE = re.compile(r"```(?:([^\s`]+)(?=[^`]))?(\n\r?|\r\n?)?")


@dataclass(frozen=True, slots=True)
class _Open:
    """An entity without its end yet."""

    kind: str
    start: int
    """In UTF-16 code units of the result."""
    at: int
    """In characters of the source."""
    language: str = ""


def parse_markdown_v2(source: str, accounts: Mapping[int, Account]) -> tuple[str, list[Entity]]:
    """Return the text and its entities. Raises ApiError as Telegram does."""
    return _MarkdownV2(source, accounts).parse()


class _MarkdownV2:
    def __init__(self, source: str, accounts: Mapping[int, Account]) -> None:
        self._source = source
        self._at = 0
        self._result = TextBuilder(accounts)
        self._open: list[_Open] = []
        self._line_begins = True

    def parse(self) -> tuple[str, list[Entity]]:
        while self._at < len(self._source):
            self._step(self._source[self._at])
        if self._inner == "BlockQuote":
            self._close()
        self._check_all_closed()
        return self._result.text, self._result.entities

    @property
    def _inner(self) -> str:
        """The kind of the innermost open entity."""
        return self._open[-1].kind if self._open else ""

    def _step(self, character: str) -> None:
        if character == "\\" and "\0" < self._ahead(1) < "\x7f":
            self._at += 1
            self._copy()
        elif character not in (_RESERVED if self._inner not in _CODE else "`"):
            self._copy()
        elif character == "\n":
            self._end_line()
        elif self._closes_here():
            self._close()
        else:
            self._begin(character)

    def _ahead(self, distance: int, size: int = 1) -> str:
        return self._source[self._at + distance : self._at + distance + size]

    def _copy(self) -> None:
        character = self._source[self._at]
        self._result.append(character)
        self._line_begins = self._line_begins and character == "\r"
        self._at += 1

    def _byte_offset(self, at: int) -> int:
        return len(self._source[:at].encode("utf-8", "surrogatepass"))

    def _check_all_closed(self) -> None:
        if self._open:
            begun = self._open[-1]
            raise unparsable(f"Can't find end of {begun.kind} entity at byte offset {self._byte_offset(begun.at)}")

    # ---------------------------------------------------------------- lines and quotes

    def _end_line(self) -> None:
        self._at += 1
        self._result.append("\n")
        self._line_begins = True
        if not any(begun.kind == "BlockQuote" for begun in self._open):
            return
        if self._ahead(0) == ">":
            self._at += 1
            self._line_begins = False
        elif self._inner == "BlockQuote":
            self._close()
        else:
            self._check_all_closed()

    def _closes_expandable_quote(self) -> bool:
        """Whether `||` is the mark of a quote that can be expanded: right before its end."""
        if self._inner != "BlockQuote" or self._ahead(0, 2) != "||":
            return False
        return not self._ahead(2) or (self._ahead(2) == "\n" and self._ahead(3) != ">")

    # ---------------------------------------------------------------- begin

    def _begin(self, character: str) -> None:
        double = self._ahead(0, 2)
        if self._closes_expandable_quote():
            self._at += 3 if self._ahead(2) else 2
            self._result.append(self._source[self._at - 1 : self._at].strip("|"))
            self._result.close("expandable_blockquote", self._open.pop().start)
            self._line_begins = True
        elif character == "`":
            self._begin_code()
        elif double in _MARKS or character in _MARKS:
            mark = double if double in _MARKS else character
            self._push(_MARKS[mark], len(mark))
        elif character == "[":
            self._push("TextUrl", 1)
        elif double == "![":
            self._push("CustomEmoji", 2)
        elif character == ">" and self._line_begins:
            self._push("BlockQuote", 1)
        else:
            raise unparsable(f"Character '{character}' is reserved and must be escaped with the preceding '\\'")

    def _push(self, kind: str, size: int, language: str = "") -> None:
        self._open.append(_Open(kind, self._result.size, self._at, language))
        self._at += size

    def _begin_code(self) -> None:
        if fence := _FENCE.match(self._source, self._at):
            self._push("PreCode" if fence[1] else "Pre", len(fence[0]), fence[1] or "")
        else:
            self._push("Code", 1)

    # ---------------------------------------------------------------- end

    def _closes_here(self) -> bool:
        end = _CLOSERS.get(self._inner)
        if end is None or self._ahead(0, len(end)) != end:
            return False
        return end != "_" or self._ahead(1) != "_"

    def _close(self) -> None:
        begun = self._open.pop()
        self._at += len(_CLOSERS.get(begun.kind, ""))
        match begun.kind:
            case "TextUrl":
                url = self._address("a URL") if self._ahead(0) == "(" else self._result.since(begun.start)
                self._result.close_link(begun.start, url)
            case "CustomEmoji":
                if self._ahead(0) != "(":
                    raise unparsable("Custom emoji entity must contain a tg://emoji URL")
                self._result.close("custom_emoji", begun.start, emoji=_emoji_id(self._address("a custom emoji URL")))
            case kind:
                self._result.close(_TYPES.get(kind, kind.lower()), begun.start, language=begun.language)

    def _address(self, what: str) -> str:
        """Read `(ADDRESS)`."""
        start = self._at + 1
        found = _ADDRESS.match(self._source, self._at)
        if found is None:
            raise unparsable(f"Can't find end of {what} at byte offset {self._byte_offset(start)}")
        self._at = found.end()
        return re.sub(r"\\([\x01-\x7e])", r"\1", found[1], flags=re.DOTALL)


def _emoji_id(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme.lower() != "tg":
        raise unparsable("Custom emoji URL must have scheme tg")
    if (parts.netloc or parts.path).strip("/").lower() != "emoji":
        raise unparsable('Custom emoji URL must have host "emoji"')
    numbers = parse_qs(parts.query).get("id")
    if not numbers:
        raise unparsable("Custom emoji URL must have an emoji identifier")
    if not re.fullmatch(r"[1-9]\d*", numbers[0]):
        raise unparsable("Invalid custom emoji identifier specified")
    return numbers[0]
