"""A block with a mark before its first line and the rest of its lines indented as far."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

POINTER = "❯ "  # noqa: RUF001
"""Where a person types, or is."""


class Marked:
    """`● text`, and what follows it under the `t`."""

    def __init__(self, mark: str, style: str, content: RenderableType, *, every_line: bool = False) -> None:
        self._mark = mark
        self._style = style
        self._content = content
        self._every = every_line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = cell_len(self._mark)
        lines = console.render_lines(self._content, options.update(width=max(options.max_width - width, 8)), pad=False)
        mark = Segment(self._mark, console.get_style(self._style))
        for number, line in enumerate(lines if self._every else _trimmed(lines)):
            yield mark if number == 0 or self._every else Segment(" " * width)
            yield from line
            yield Segment.line()


def _trimmed(lines: list[list[Segment]]) -> list[list[Segment]]:
    """Leave out empty lines at both ends, which rich puts around lists, tables and code."""
    full = [number for number, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
    return lines[full[0] : full[-1] + 1] if full else []
