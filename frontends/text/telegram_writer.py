"""Writes a message of Telegram: its text, and which parts of it look how, by their characters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .characters import visible
from .links import addresses, is_honest, is_linkable
from .table import Table, aligned_table, compact_table
from .writer import Style

SpanType = Literal["bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote"]

MOST_SPANS = 100
"""What Telegram takes in a message; it passes over all others."""
_HOLDS_NOTHING = ("code", "pre")
_LAST_TO_LEAVE_OUT = ("text_link", "pre", "code")
"""An address that only a link has would be lost."""


@dataclass(slots=True)
class Span:
    """A part of the text that looks different."""

    type: SpanType
    start: int
    end: int = -1
    url: str | None = None
    language: str | None = None


class TelegramWriter:
    bullet = "• "
    task = ""

    def __init__(self, *, aligned: bool) -> None:
        self._aligned = aligned
        self._parts = list[str]()
        self._at = 0
        self._open = list[Span]()
        self._closed = list[Span]()
        self._in_link = False
        self._link_start = 0
        self._links = 0

    def message(self) -> tuple[str, list[Span]]:
        """Return the text and its spans in their order, outer before inner ones."""
        text = "".join(self._parts)
        spans = sorted((span for span in self._closed if _trim(span, text)), key=_order)
        if len(spans) > MOST_SPANS:
            spans = sorted(sorted(spans, key=_importance)[:MOST_SPANS], key=_order)
        return text, spans

    # ---- what a reader calls

    def end_lines(self, count: int) -> None:
        self._write("\n" * count)

    def mark(self, text: str) -> None:
        self._write(text)

    def text(self, text: str) -> None:
        for part, is_address in addresses(visible(text).replace("\t", " ")):
            start = self._at
            self._write(part)
            if is_address and not self._in_link:
                self._link(start, part)

    def code(self, code: str) -> None:
        self._literal(visible(code).replace("\t", " "), "code")

    def open_style(self, style: Style) -> None:
        self._open.append(Span(style, self._at))

    def close_style(self, style: Style) -> None:
        self._close()

    def open_heading(self, level: int) -> None:
        self.open_style("bold")

    def close_heading(self, level: int) -> None:
        self._close()

    def open_quote(self) -> None:
        self._open.append(Span("blockquote", self._at))

    def close_quote(self) -> None:
        self._close()

    def open_link(self, address: str, label: str) -> None:
        self._in_link = True
        self._link_start = self._at

    def close_link(self, address: str, label: str) -> None:
        self._in_link = False
        linked = self._link(self._link_start, address)
        if label != address and not (linked and is_honest(visible(label), address)):
            self._write(" (")
            self.text(address)
            self._write(")")

    def code_block(self, code: str, language: str) -> None:
        self._literal(visible(code).replace("\t", "    ").strip("\n"), "pre", language or None)

    def table(self, table: Table) -> None:
        self._literal(aligned_table(table) if self._aligned else compact_table(table), "pre")

    # ---- spans

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._at += len(text)

    def _link(self, start: int, address: str) -> bool:
        """Make a link of what was written since, and return whether it is one: not if there are too many."""
        if self._links == MOST_SPANS or not is_linkable(address):
            return False
        self._closed.append(Span("text_link", start, self._at, url=address))
        self._links += 1
        return True

    def _close(self) -> None:
        span = self._open.pop()
        self._end(span, outer=self._open)

    def _end(self, span: Span, *, outer: list[Span]) -> None:
        if all(one.type != span.type for one in outer):
            self._closed.append(Span(span.type, span.start, self._at))

    def _literal(self, text: str, kind: SpanType, language: str | None = None) -> None:
        """Write code. It is inside of nothing but a quote: a style ends before it and begins again after it, and in a
        link it is text."""
        if self._in_link:
            self._write(text)
            return
        for style, outer in self._styles():
            self._end(style, outer=outer)
        self._closed.append(Span(kind, self._at, self._at + len(text), language=language))
        self._write(text)
        for style, _ in self._styles():
            style.start = self._at

    def _styles(self) -> Iterator[tuple[Span, list[Span]]]:
        for depth, span in enumerate(self._open):
            if span.type != "blockquote":
                yield span, self._open[:depth]


def _order(span: Span) -> tuple[int, int, bool]:
    return span.start, -span.end, span.type in _HOLDS_NOTHING


def _importance(span: Span) -> int:
    return _LAST_TO_LEAVE_OUT.index(span.type) if span.type in _LAST_TO_LEAVE_OUT else len(_LAST_TO_LEAVE_OUT)


def _trim(span: Span, text: str) -> bool:
    """Leave out blank characters at both ends, but not the indentation of a code block. Return False if nothing is
    left."""
    part = text[span.start : span.end]
    if span.type != "pre":
        span.start += len(part) - len(part.lstrip())
    span.end -= len(part) - len(part.rstrip())
    return span.end > span.start
