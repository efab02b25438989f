"""From what rich can render to lines for the terminal: colours as escape sequences of our own, and none of others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from io import StringIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.theme import Theme

from ...output import safe_text

THEME = Theme(
    {
        "dim": "bright_black",
        "accent": "cyan",
        "user": "bold cyan",
        "good": "green",
        "bad": "red",
        "warn": "yellow",
        "tool": "bold",
        "added": "green",
        "removed": "red",
        "reasoning": "italic bright_black",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold italic",
        "markdown.code": "cyan",
        "markdown.code_block": "default",
        "markdown.item.bullet": "cyan",
        "markdown.item.number": "cyan",
        "markdown.block_quote": "italic bright_black",
        "markdown.hr": "bright_black",
        "markdown.link": "cyan underline",
        "markdown.link_url": "cyan underline",
        "markdown.table.border": "bright_black",
        "markdown.table.header": "bold",
    },
    inherit=True,
)
"""Names of colours that every terminal has, so they fit a light and a dark one."""


class Paper:
    """Renders for one terminal. `color` None leaves it to the environment: TERM, COLORTERM, NO_COLOR."""

    def __init__(self, *, color: bool | None = None) -> None:
        self._no_color = bool(os.environ.get("NO_COLOR")) if color is None else not color

    def ansi(self, renderable: RenderableType, width: int) -> str:
        """Return the lines, each ended by a line feed and without blanks at its end."""
        console = Console(
            file=StringIO(),
            force_terminal=True,
            width=max(width, 10),
            no_color=self._no_color,
            theme=THEME,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )
        with console.capture() as captured:
            console.print(_Clean(renderable), soft_wrap=False, end="")
        return captured.get()


class _Clean:
    """A renderable, stripped of control codes, links and blank ends of lines."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        segments = (segment for segment in console.render(self._renderable, options) if not segment.control)
        for line in Segment.split_lines(segments):
            yield from _without_blank_end(list(_safe(line)))
            yield Segment.line()


def _safe(line: Iterable[Segment]) -> Iterator[Segment]:
    for text, style, _ in line:
        yield Segment(safe_text(text), style.update_link(None) if style and style.link else style)


def _without_blank_end(line: list[Segment]) -> list[Segment]:
    while line and not line[-1].text.strip() and not (line[-1].style and line[-1].style.bgcolor):
        line.pop()
    if line and not (line[-1].style and line[-1].style.bgcolor):
        line[-1] = Segment(line[-1].text.rstrip(" "), line[-1].style)
    return line
