"""Split a long Markdown text into texts of messages.

The text may still grow at its end while its first messages have been sent, so a cut is decided as soon as a message is
full, by what has arrived until then and nothing behind it; it never moves again. Therefore the length that a message
will have is counted by a `Measure` of the Markdown, which only grows with the text: what a link or an emphasis saves in
the message that people see is not used, because while it arrives it may still become something else.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Protocol

from .line_break import break_line
from .open_block import NO_BLOCK, OpenBlock, after_line, is_heading, is_quoted, opens_code, opens_section, quote_prefix

_BLANK = re.compile(r"\s*")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)*")
_MOST_INDENTATION = 40
_LEAST_LIMIT = 500
_QUOTE_PREFIX = 2
"""Characters that Discord needs for a line of a quote, which Markdown may leave out."""


class Measure(Protocol):
    def __call__(self, text: str, *, code: bool) -> int:
        """Return the most that this part of a Markdown text counts in a message. It never shrinks as the part grows."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """A message: a part of the text, between what opens and closes a block that goes through several messages."""

    start: int
    end: int
    opening: str = ""
    closing: str = ""

    def markdown(self, source: str) -> str:
        text = source[self.start : self.end].rstrip()
        return f"{self.opening}{text}{self.closing}" if self.opening else f"{_outdented(text)}{self.closing}"


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where a message may end, and what the next one begins with."""

    at: int
    block: OpenBlock
    opening: str
    in_line: bool = False


def split(markdown: str, limit: int, measure: Measure) -> list[str]:
    """Return the texts of messages, none of them empty. As the text grows, all but the last stay as they are."""
    source = markdown.replace("\r\n", "\n").replace("\r", "\n")
    return [part.markdown(source) for part in parts(source, limit, measure)]


def parts(source: str, limit: int, measure: Measure) -> Iterator[Part]:
    """Yield the parts of a text whose lines end with a line feed. Between them only blank characters are left out, and
    the last line of a code block that was closed before it."""
    if limit < _LEAST_LIMIT:
        raise ValueError(f"limit is {limit}: a message must hold {_LEAST_LIMIT} characters at least")
    cut = _Cut(0, NO_BLOCK, "")
    while True:
        start, block, opening = _next_start(source, cut)
        if start >= len(source):
            return
        if measure(opening + block.closing, code=False) > limit // 4:
            block = replace(block, opening="", closing="")
            opening = ""
        message = _Message(source, start, block, opening, limit, measure)
        cut = message.fill()
        closing = cut.block.closing if cut.at < len(source) else ""
        if not source[start : cut.at].isspace():
            yield Part(start, cut.at, opening, closing)


def _next_start(source: str, cut: _Cut) -> tuple[int, OpenBlock, str]:
    """Return where the next message starts, in which block, and its opening."""
    start = cut.at
    block = cut.block
    if block.opening or block.is_code:
        end = source.find("\n", start)
        line = source[start : len(source) if end < 0 else end]
        if block.is_code and not cut.in_line and block.has(line) and block.is_closed_by(line):
            start = start + len(line)
            block = NO_BLOCK
        elif not block.has(line) and not cut.in_line:
            block = NO_BLOCK
    if block.is_code:
        return start, block, cut.opening
    start = _match_end(_BLANK if cut.in_line else _BLANK_LINES, source, start)
    if source[start : start + _MOST_INDENTATION].isspace():
        start = _match_end(_BLANK, source, start)
    return start, block, cut.opening if block == cut.block else ""


def _match_end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _outdented(text: str) -> str:
    """Move the rest of a nested list to the left, or it would be no list on its own."""
    columns = len(text) - len(text.lstrip(" \t"))
    if not columns:
        return text
    lines = text.split("\n")
    inside = list(takewhile(lambda line: not line[:columns].strip(), lines))
    return "\n".join([*(line[columns:] for line in inside), *lines[len(inside) :]])


class _Message:
    """A message that is filled line by line."""

    def __init__(self, source: str, start: int, block: OpenBlock, opening: str, limit: int, measure: Measure) -> None:
        self._source = source
        self._start = start
        self._limit = limit
        self._half = limit // 2
        """A message ends between lines if it is at least that full then."""
        self._measure = measure
        self._block = block
        self._used = measure(opening + block.closing, code=False)
        self._quoted = is_quoted(opening)
        self._previous = ""
        self._after_heading = False
        self._best: _Cut | None = None
        """The last place before a paragraph."""
        self._last: _Cut | None = None
        """The last place before a line."""

    def fill(self) -> _Cut:
        at = self._start
        while at < len(self._source):
            end = self._source.find("\n", at, at + self._limit + 1) + 1
            line = self._source[at : end or at + self._limit + 1]
            cost = self._cost(line)
            if self._used + cost > self._limit:
                return self._cut(at, line)
            self._note_cut(at, line)
            self._take(line.removesuffix("\n"), cost)
            at += len(line)
        return _Cut(at, NO_BLOCK, "")

    def _cost(self, line: str) -> int:
        """Return the most that the line takes. It never shrinks as the line grows."""
        code = self._block.is_surely_code
        cost = self._measure(line, code=code)
        if not code:
            head = opens_code(line)
            cost += self._measure(f"\n{head}", code=False) if head else 0
            cost += _QUOTE_PREFIX if self._quoted or is_quoted(line) else 0
        return cost

    def _take(self, line: str, cost: int) -> None:
        blank = not line.strip()
        self._block = after_line(self._block, self._previous, line)
        self._used += cost
        self._previous = line
        self._quoted = not blank and (self._quoted or is_quoted(line))
        if not blank:
            self._after_heading = not self._block.is_code and is_heading(line)

    def _note_cut(self, at: int, line: str) -> None:
        """Note that the message may end before this line. No heading stays behind without what it is for."""
        if self._used < self._half or self._after_heading:
            return
        self._last = _Cut(at, self._block, self._block.opening)
        if not self._block.is_code and (not self._previous.strip() or opens_section(line)):
            self._best = self._last

    def _cut(self, at: int, line: str) -> _Cut:
        """End the message, which has no room for this line."""
        lengths = range(len(line) + 1)
        free = self._limit - self._used
        last = bisect_right(lengths, free, key=lambda length: self._cost(line[:length])) - 1
        self._note_cut(at, line[: last + 1])
        cut = self._best or self._last
        if cut:
            return cut
        end = break_line(line, max(last // 2, 1), last)
        block = self._block if self._block.is_code else NO_BLOCK
        return _Cut(at + end, block, block.opening or quote_prefix(line), in_line=True)
