"""Small tables for the answers of commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ...output import safe_line


def pairs(rows: Iterable[tuple[str, object]]) -> RenderableType:
    """Return names and their values; a value that is None or empty is left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, value in rows:
        if value is not None and value != "":
            table.add_row(Text(safe_line(name), "dim"), Text(safe_line(str(value))))
    return table


def listing(rows: Iterable[Sequence[object]], first_style: str = "bold") -> RenderableType:
    """Return rows of which the first column says most."""
    table = Table.grid(padding=(0, 2))
    for row in rows:
        first, *others = (safe_line("" if cell is None else str(cell)) for cell in row)
        table.add_row(Text(first, first_style), *(Text(cell, "dim") for cell in others))
    return table
