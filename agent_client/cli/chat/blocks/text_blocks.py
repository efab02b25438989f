"""The texts of a turn: finished blocks are printed, the open one is live."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from .... import TextDelta, TextReplaced
from .markdown_stream import MarkdownStream
from .markdown_view import Prose
from .marked import Marked
from .out import Out

MAX_FORMATTED = 32_000
"""Characters of a block that is drawn as Markdown, which takes seconds at worst. A longer one is drawn as it is."""


class TextBlocks:
    """One text is open at a time, of the answer or of the reasoning."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._stream: MarkdownStream | None = None
        self._key: tuple[str, int] = ("", 0)
        self._printed = False

    def take(self, event: TextDelta | TextReplaced) -> None:
        """Take more of a text; another one than the open one finishes that."""
        key = event.kind, event.part
        if self._stream is None or key != self._key:
            self.finish()
            self._open(key)
        elif isinstance(event, TextReplaced):
            if self._printed:
                self._print("The agent was restarted in the middle of this text, which is now:", first=False)
            self._open(key)
        if self._stream is not None:
            for block in self._stream.feed(event.text):
                self._print_block(block)

    @property
    def is_open(self) -> bool:
        return self._stream is not None

    def finish(self) -> None:
        """The open text has ended."""
        if self._stream is not None:
            for block in self._stream.finish():
                self._print_block(block)
            self._stream = None

    def live(self) -> Iterator[RenderableType]:
        """Yield the open block."""
        if self._stream is not None and (text := self._stream.open):
            yield self._drawn(text)

    def _open(self, key: tuple[str, int]) -> None:
        self._stream = MarkdownStream()
        self._key = key
        self._printed = False

    def _print_block(self, block: str) -> None:
        if block.strip():
            self._out.print(self._drawn(block))
            self._printed = True

    def _print(self, note: str, *, first: bool) -> None:
        self._out.print(Marked("● " if first else "  ", "dim", Text(note, "dim")))

    def _drawn(self, block: str) -> RenderableType:
        if self._key[0] == "reasoning":
            return Marked("  " if self._printed else "✻ ", "dim", Text(block.strip("\n"), "reasoning"))
        drawn = Prose(block) if len(block) <= MAX_FORMATTED else Text(block.strip("\n"))
        return Marked("  " if self._printed else "● ", "accent", drawn)
