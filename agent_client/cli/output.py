"""All output of the commands: tables for people, plain lines for pipes, JSON for programs.

What agents, models and tools say is not trusted: `safe_text` takes out what would drive the terminal, and nothing is
ever read as markup.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent_common.lookalikes import escape_lookalikes
from agent_common.terminal_text import safe_json, safe_line, safe_text, write_text

if TYPE_CHECKING:
    from rich.console import Console


def exact_text(text: str) -> str:
    """Return `safe_text` for what a person decides on: letters that look like others are escapes too."""
    return escape_lookalikes(safe_text(text))


def exact_line(text: str) -> str:
    """Return the same as one line."""
    return safe_line(exact_text(text))


def local_time(epoch_ms: int | None) -> str:
    """Return a time of the API in the reader's time zone. Any number has a text, also one that no calendar has."""
    if epoch_ms is None:
        return ""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ006  the reader's own time zone
    except (ValueError, OverflowError, OSError):
        return "in no calendar"


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command writes, and how: `json` is what `--json` says."""

    json: bool = False

    @property
    def terminal(self) -> bool:
        """Whether a person looks at it."""
        return sys.stdout.isatty()

    def console(self) -> Console:
        """Return a console of rich for this terminal. It interprets no markup and respects NO_COLOR."""
        from rich.console import Console

        return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)

    def document(self, value: Any) -> None:
        """Write one JSON document."""
        write_text(safe_json(value, indent=2 if self.terminal else None) + "\n")

    def record(self, value: Any) -> None:
        """Write one line of JSON Lines."""
        write_text(safe_json(value) + "\n")

    def text(self, text: str) -> None:
        """Write text as it comes, without a line end of its own."""
        write_text(safe_text(text))

    def answer(self, result: Mapping[str, Any]) -> None:
        """Write what a task has answered: text as it is, anything else as JSON."""
        text = result.get("text") if len(result) == 1 else None
        self.text((text if isinstance(text, str) else safe_json(result, indent=2)) + "\n")

    def line(self, text: str = "") -> None:
        """Write one line."""
        write_text(safe_line(text) + "\n")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str = "nothing to show") -> None:
        """Write a table for a person, or a line for each row with tabs between its cells: no heading, nothing cut."""
        cells = [[safe_line("" if cell is None else str(cell)) for cell in row] for row in rows]
        if not self.terminal:
            write_text("".join("\t".join(row) + "\n" for row in cells))
        elif cells:
            self._draw(columns, cells)
        else:
            self.note(empty)

    def _draw(self, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for name in columns:
            table.add_column(name, overflow="fold")
        for row in cells:
            table.add_row(*map(Text, row))
        self.console().print(table)

    def note(self, text: str) -> None:
        """Tell a person something beside the output: on stderr, and not with `--json`."""
        if not self.json:
            write_text(safe_line(text) + "\n", sys.stderr)


def print_error(text: str, output: str = "") -> None:
    """Write an error to stderr, and indented below it its further lines and what another program has written."""
    first, *more = text.splitlines() or [""]
    write_text(f"agent: {safe_line(first)}\n", sys.stderr)
    if below := "\n".join([*more, *([output] if output else ())]):
        write_text(textwrap.indent(safe_text(below), "  ") + "\n", sys.stderr)
