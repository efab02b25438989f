"""What a call of `write` or `edit` changes in a file, as coloured lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from rich.text import Text

from ...output import safe_line

CONTEXT_LINES = 2
SHOWN_LINES = 40
MAX_COMPARED = 4_000_000
"""Maximum lines before times lines after that are compared one by one, which takes half a second."""
_Change = tuple[str, int, int, int, int]
"""As `SequenceMatcher` names them."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before and after. `whole` is false for a piece of it, whose lines have no known numbers."""

    path: str
    before: str
    after: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Numbered:
    """A line of a difference."""

    sign: Literal["+", "-", " ", "~"]
    """`~` stands for lines that are left out."""
    number: int
    text: str


def difference(change: FileChange) -> list[Numbered]:
    """Return the changed lines with a few around them; empty if nothing changes."""
    before = change.before.splitlines()
    after = change.after.splitlines()
    first, last = _common(before, after)
    skipped = max(first - CONTEXT_LINES, 0)
    left = max(last - CONTEXT_LINES, 0)
    before = before[skipped : len(before) - left]
    after = after[skipped : len(after) - left]
    lines: list[Numbered] = []
    for group in _groups(before, after, first - skipped, last - left):
        if lines:
            lines.append(Numbered("~", 0, ""))
        for tag, start, end, new_start, new_end in group:
            if tag != "equal":
                lines += [Numbered("-", skipped + at + 1, before[at]) for at in range(start, end)]
            sign = " " if tag == "equal" else "+"
            lines += [Numbered(sign, skipped + at + 1, after[at]) for at in range(new_start, new_end)]
    return lines


def _common(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """Return how many lines are the same at the beginning and, beyond those, at the end."""
    most = min(len(before), len(after))
    first = next((at for at in range(most) if before[at] != after[at]), most)
    return first, next((at for at in range(most - first) if before[-1 - at] != after[-1 - at]), most - first)


def _groups(before: Sequence[str], after: Sequence[str], first: int, last: int) -> Iterable[Sequence[_Change]]:
    """Yield the changes, those that are near each other together. A model writes the lines, and could write them so
    that a comparison of all takes hours: those that come often count less, and too many are one change."""
    if len(before) * len(after) <= MAX_COMPARED:
        return SequenceMatcher(None, before, after).get_grouped_opcodes(CONTEXT_LINES)
    end = len(before) - last
    new_end = len(after) - last
    head: _Change = ("equal", 0, first, 0, first)
    return [[head, ("replace", first, end, first, new_end), ("equal", end, len(before), new_end, len(after))]]


def counted(lines: Sequence[Numbered]) -> tuple[int, int]:
    """Return how many lines are added and removed."""
    return sum(line.sign == "+" for line in lines), sum(line.sign == "-" for line in lines)


def change_lines(change: FileChange, most: int = SHOWN_LINES, show: Callable[[str], str] = safe_line) -> Iterator[Text]:
    """Yield the difference as lines, at most `most`, with their text as `show` writes it."""
    lines = difference(change)
    width = len(str(max((line.number for line in lines), default=0)))
    for line in lines[:most]:
        yield _drawn(line, width if change.whole else 0, show)
    if len(lines) > most:
        yield Text(f"… {len(lines) - most} more lines", "dim")


def _drawn(line: Numbered, width: int, show: Callable[[str], str]) -> Text:
    if line.sign == "~":
        return Text(" " * width + " ⋮", "dim")
    style = {"+": "added", "-": "removed", " ": "dim"}[line.sign]
    number = f"{line.number:>{width}} " if width else ""
    return Text.assemble((number, "dim"), (f"{line.sign} {show(line.text)}", style))
