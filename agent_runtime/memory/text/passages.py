"""Split long texts into passages, so that a search finds a place in a file instead of the whole file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_LENGTH = 800
"""Characters of a passage, without the headings above it."""
MIN_LENGTH = 300
"""Characters after which the next paragraph begins a new passage."""
MAX_HEADING_LENGTH = 100
MAX_PASSAGES = 500
"""Passages of a text; text after them is not found."""
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_GAPS = (re.compile(r"[.!?]\s|[\u3002\uff01\uff1f\u0964]"), re.compile(r"\s"))
"""Where a long line is cut, best first: after sentences, after words."""


@dataclass(frozen=True, slots=True)
class Passage:
    text: str
    line: int
    """The number of its first line, from 1."""


def split_markdown(text: str) -> list[Passage]:
    """Return the passages of a Markdown file, each with the headings above it. Any text is Markdown."""
    return _limit(_under_headings(text))


def split_text(text: str) -> list[Passage]:
    """Return the passages of a plain text."""
    return _limit(_pack_lines(enumerate(text.split("\n"), 1)))


def _limit(passages: Iterator[Passage]) -> list[Passage]:
    return [passage for passage, _ in zip(passages, range(MAX_PASSAGES), strict=False)]


def _under_headings(text: str) -> Iterator[Passage]:
    above: list[tuple[int, str]] = []
    block: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        heading = None if fenced else _HEADING.match(line)
        fenced ^= _FENCE.match(line) is not None
        if heading is None:
            block.append((number, line))
            continue
        yield from _add_titles(above, block)
        depth = len(heading[1])
        above = [(level, title) for level, title in above if level < depth]
        above.append((depth, heading[2].strip(" \t#")[:MAX_HEADING_LENGTH]))
        block = [(number, "")]
    yield from _add_titles(above, block)


def _add_titles(above: list[tuple[int, str]], block: list[tuple[int, str]]) -> Iterator[Passage]:
    titles = " > ".join(title for _, title in above if title)
    has_text = False
    for passage in _pack_lines(iter(block)):
        has_text = True
        yield Passage(f"{titles}\n{passage.text}" if titles else passage.text, passage.line)
    if not has_text and titles:
        yield Passage(titles, block[0][0] if block else 1)  # a heading without text is a passage too


def _pack_lines(lines: Iterator[tuple[int, str]]) -> Iterator[Passage]:
    """Join lines to passages of MAX_LENGTH at most; a paragraph begins a new one after MIN_LENGTH."""
    held: list[str] = []
    size = 0
    first = 1
    for number, line in lines:
        blank = not line.strip()
        for piece in _split_line(line.rstrip()):
            if held and (size + len(piece) >= MAX_LENGTH or (blank and size >= MIN_LENGTH)):
                yield Passage("\n".join(held), first)
                held = []
                size = 0
            if not blank:
                first = first if held else number
                held.append(piece)
                size += len(piece) + 1
    if held:
        yield Passage("\n".join(held), first)


def _split_line(line: str) -> Iterator[str]:
    """Split a line into pieces that fit in a passage."""
    while len(line) >= MAX_LENGTH:
        cuts = (
            max((gap.end() for gap in gaps.finditer(line, MAX_LENGTH // 2, MAX_LENGTH)), default=0) for gaps in _GAPS
        )
        at = next((cut for cut in cuts if cut), MAX_LENGTH - 1)
        yield line[:at].rstrip()
        line = line[at:].lstrip()
    yield line
