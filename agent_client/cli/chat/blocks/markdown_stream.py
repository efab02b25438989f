"""Cuts Markdown that is still growing into its blocks: those that cannot change any more, and the open end.

A block (a paragraph, a list, a fence) is finished as soon as a whole line of the next one is there, a long one a little
later. So where the text is cut into deltas makes no difference to what is printed, and a reply costs no more than each
of its blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile, pairwise

from markdown_it import MarkdownIt

from ...output import safe_text

OPEN_LINES = 60
OPEN_CHARACTERS = 6_000
"""Of an open block with more lines or characters the end is shown: it is drawn again and again."""
FENCE_CHARACTERS = 40
"""Of the line that begins a block of code, above its end."""
_OUTLINE = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable(["reference", "inline"])
"""Finds the blocks of a text, and does not look into them."""


class MarkdownStream:
    """One text. Blocks are Markdown that is safe for a terminal."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        """Whole lines of the open block, safe to show."""
        self._size = 0
        """Characters of those."""
        self._rest: list[str] = []
        """The pieces of the line that is not complete, as they came."""
        self._look_at = 0
        """Size of the open block with which its end is looked for again: a long one is not read at every line."""
        self.received = 0
        """Characters so far."""

    def feed(self, delta: str) -> Sequence[str]:
        """Take more of the text and return the blocks that are finished by it."""
        self.received += len(delta)
        self._rest.append(delta)
        if "\n" not in delta:
            return ()
        whole, newline, rest = "".join(self._rest).rpartition("\n")
        self._rest = [rest]
        self._add(safe_text(whole + newline).split("\n")[:-1])
        if self._size < self._look_at:
            return ()
        blocks = self._take(keep_last=True)
        is_long = len(self._lines) > OPEN_LINES or self._size > OPEN_CHARACTERS
        self._look_at = self._size * 5 // 4 if is_long else 0
        return blocks

    def finish(self) -> Sequence[str]:
        """The text has ended: return what is left of it."""
        if rest := "".join(self._rest):
            self._add([safe_text(rest)])
        blocks = self._take(keep_last=False)
        self._lines.clear()
        self._rest.clear()
        return blocks

    @property
    def open(self) -> str:
        """The open block as far as it is there; of a long one its end."""
        rest = safe_text("".join(self._rest)[-OPEN_CHARACTERS:])
        lines = [*self._lines[-OPEN_LINES:], rest] if self._lines or rest.strip() else []
        shown = "\n".join(line[-OPEN_CHARACTERS:] for line in lines)[-OPEN_CHARACTERS:]
        is_cut = len(self._lines) > OPEN_LINES or self._size > OPEN_CHARACTERS
        if is_cut and self._lines[0].lstrip().startswith(("```", "~~~")):
            return f"{self._lines[0][:FENCE_CHARACTERS]}\n{shown}"
        return shown

    def _add(self, lines: Sequence[str]) -> None:
        """Take lines, without empty ones before a block."""
        if not self._lines:
            lines = list(dropwhile(lambda line: not line.strip(" \t"), lines))
        self._lines += lines
        self._size += sum(map(len, lines)) + len(lines)

    def _take(self, *, keep_last: bool) -> Sequence[str]:
        starts = _block_starts("\n".join(self._lines) + "\n")
        if len(starts) < 1 + keep_last:
            return ()
        cuts = starts if keep_last else [*starts, len(self._lines)]
        blocks = ["\n".join(self._lines[start:end]) for start, end in pairwise(cuts)]
        del self._lines[: cuts[-1]]
        self._size = sum(map(len, self._lines)) + len(self._lines)
        return blocks


def _block_starts(text: str) -> list[int]:
    """The lines at which the top-level blocks begin."""
    return [token.map[0] for token in _OUTLINE.parse(text) if token.level == 0 and token.nesting >= 0 and token.map]
