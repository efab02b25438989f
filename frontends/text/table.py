"""A table as text in a font of fixed width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .characters import visible, width

Alignment = Literal["left", "center", "right"]
_SEPARATOR = " │ "


@dataclass(frozen=True, slots=True)
class Table:
    """The first row is the head. All rows have as many cells as there are alignments."""

    rows: Sequence[Sequence[str]]
    alignments: Sequence[Alignment]


def aligned_table(table: Table) -> str:
    """Return the table in columns, with a rule below its head."""
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    lines = [_SEPARATOR.join(map(_padded, row, widths, table.alignments)).rstrip() for row in rows]
    return "\n".join([lines[0], "─┼─".join("─" * columns for columns in widths), *lines[1:]])


def compact_table(table: Table) -> str:
    """Return the table without columns, never longer than its Markdown: for a message that has no room for them."""
    return "\n".join(_SEPARATOR.join(map(_cell, row)).rstrip(" │") for row in table.rows)


def _cell(text: str) -> str:
    return " ".join(visible(text).split())


def _padded(cell: str, columns: int, alignment: Alignment) -> str:
    space = columns - width(cell)
    left = {"left": 0, "center": space // 2, "right": space}[alignment]
    return " " * left + cell + " " * (space - left)
