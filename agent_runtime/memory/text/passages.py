"""Cuts long texts into passages: what is found is a place, not a whole file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 800
"""Characters of a passage, without the headings above it."""
SHORTEST = 300
"""Characters that a passage should have before another paragraph begins a new one."""
LONGEST_HEADING = 100
MOST = 500
"""Passages of a text; what is behind them is not found."""
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_GAPS = (re.compile(r"[.!?]\s|[\u3002\uff01\uff1f\u0964]"), re.compile(r"\s"))
"""Where a long line is cut, best first: behind sentences, behind words."""


@dataclass(frozen=True, slots=True)
class Passage:
    text: str
    line: int
    """Where it begins, counted from one."""


def of_markdown(text: str) -> list[Passage]:
    """Passages of a Markdown file, each below the headings that it stands under. Any text is Markdown."""
    return _first(_under_headings(text))


def of_text(text: str) -> list[Passage]:
    """Passages of what somebody said."""
    return _first(_packed(enumerate(text.split("\n"), 1)))


def _first(passages: Iterator[Passage]) -> list[Passage]:
    return [passage for passage, _ in zip(passages, range(MOST), strict=False)]


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
        yield from _titled(above, block)
        depth = len(heading[1])
        above = [(level, title) for level, title in above if level < depth]
        above.append((depth, heading[2].strip(" \t#")[:LONGEST_HEADING]))
        block = [(number, "")]
    yield from _titled(above, block)


def _titled(above: list[tuple[int, str]], block: list[tuple[int, str]]) -> Iterator[Passage]:
    titles = " > ".join(title for _, title in above if title)
    said = False
    for passage in _packed(iter(block)):
        said = True
        yield Passage(f"{titles}\n{passage.text}" if titles else passage.text, passage.line)
    if not said and titles:
        yield Passage(titles, block[0][0] if block else 1)  # a heading that nothing stands under says something too


def _packed(lines: Iterator[tuple[int, str]]) -> Iterator[Passage]:
    """Lines put together up to the bound; a paragraph begins a new passage once there is enough."""
    held: list[str] = []
    size, first = 0, 1
    for number, line in lines:
        blank = not line.strip()
        for piece in _pieces(line.rstrip()):
            if held and (size + len(piece) >= LONGEST or (blank and size >= SHORTEST)):
                yield Passage("\n".join(held), first)
                held, size = [], 0
            if not blank:
                first = first if held else number
                held.append(piece)
                size += len(piece) + 1
    if held:
        yield Passage("\n".join(held), first)


def _pieces(line: str) -> Iterator[str]:
    """A line in pieces that fit."""
    while len(line) >= LONGEST:
        cuts = (max((gap.end() for gap in gaps.finditer(line, LONGEST // 2, LONGEST)), default=0) for gaps in _GAPS)
        at = next((cut for cut in cuts if cut), LONGEST - 1)
        yield line[:at].rstrip()
        line = line[at:].lstrip()
    yield line
