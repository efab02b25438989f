"""What writes a message for one platform: `Reader` calls it for each part of a text, in its order."""

from __future__ import annotations

from typing import Literal, Protocol

from .table import Table

Style = Literal["bold", "italic", "strikethrough"]
RULE = "———"
"""Not longer than the shortest rule in Markdown, as everything that a writer adds."""


class Writer(Protocol):
    bullet: str
    task: str
    """What stands before the box of a task."""

    def end_lines(self, count: int) -> None:
        """Begin another line, after an empty one if the count is two."""
        ...

    def mark(self, text: str) -> None:
        """Write a bullet, a number or indentation."""
        ...

    def text(self, text: str) -> None: ...

    def code(self, code: str) -> None: ...

    def open_style(self, style: Style) -> None: ...

    def close_style(self, style: Style) -> None: ...

    def open_heading(self, level: int) -> None: ...

    def close_heading(self, level: int) -> None: ...

    def open_quote(self) -> None: ...

    def close_quote(self) -> None: ...

    def open_link(self, address: str, label: str) -> None:
        """Begin a link, whose label follows as text and code."""
        ...

    def close_link(self, address: str, label: str) -> None: ...

    def code_block(self, code: str, language: str) -> None: ...

    def table(self, table: Table) -> None: ...
