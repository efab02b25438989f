"""Cuts Markdown that is still growing into its blocks: those that cannot change any more, and the open end.

A block (a paragraph, a list, a fence) is finished as soon as a whole line of the next one is there, a long one a little
later. So where the text is cut into deltas makes no difference to what is printed, and a reply costs no more than each
of its blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ...output import safe_text
from .markdown_view import PARSER

OPEN_LINES = 60
"""Of a longer open block the end is shown."""


class MarkdownStream:
    """One text. Blocks are Markdown that is safe for a terminal."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        """Whole lines of the open block, safe to show."""
        self._rest = ""
        """The line that is not complete, as it came."""
        self._look_at = 0
        """Lines of the open block with which its end is looked for again: a long one is not read at every line."""
        self.received = 0
        """Characters so far."""

    def feed(self, delta: str) -> Sequence[str]:
        """Take more of the text and return the blocks that are finished by it."""
        self.received += len(delta)
        whole, newline, self._rest = (self._rest + delta).rpartition("\n")
        if not newline:
            return ()
        self._lines += safe_text(whole + newline).split("\n")[:-1]
        if len(self._lines) < self._look_at:
            return ()
        blocks = self._take(keep_last=True)
        self._look_at = len(self._lines) * 5 // 4 if len(self._lines) > OPEN_LINES else 0
        return blocks

    def finish(self) -> Sequence[str]:
        """The text has ended: return what is left of it."""
        if self._rest:
            self._lines.append(safe_text(self._rest))
            self._rest = ""
        blocks = self._take(keep_last=False)
        self._lines.clear()
        return blocks

    @property
    def open(self) -> str:
        """The open block as far as it is there; of a long one its end."""
        lines = [*self._lines, safe_text(self._rest)]
        while lines and not lines[0].strip():
            del lines[0]
        if len(lines) <= OPEN_LINES:
            return "\n".join(lines)
        fence = [lines[0]] if lines[0].lstrip().startswith(("```", "~~~")) else []
        return "\n".join(fence + lines[-OPEN_LINES:])

    def _take(self, *, keep_last: bool) -> Sequence[str]:
        starts = _block_starts("\n".join(self._lines) + "\n")
        if len(starts) < 1 + keep_last:
            return ()
        cuts = starts if keep_last else [*starts, len(self._lines)]
        blocks = ["\n".join(self._lines[start:end]) for start, end in pairwise(cuts)]
        del self._lines[: cuts[-1]]
        return blocks


def _block_starts(text: str) -> list[int]:
    """The lines at which the top-level blocks begin."""
    return [token.map[0] for token in PARSER.parse(text) if token.level == 0 and token.nesting >= 0 and token.map]
