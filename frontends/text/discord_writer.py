"""Writes a message of Discord: Markdown again, of which nothing is left that its parser would read differently."""

from __future__ import annotations

import re

from .characters import WORD_JOINER, visible
from .links import addresses, is_web
from .table import Table, aligned_table, compact_table
from .writer import Style

_STYLES: dict[Style, str] = {"bold": "**", "italic": "*", "strikethrough": "~~"}
_SIGNS = re.compile(r"[\\*_~`|\[\]]")
_BLOCK_START = re.compile(r"\s*(?:\d+(?=[.)](?:\s|$))|(?=[-+](?:[\s#]|$)|(?:#{1,3}|>{1,3})(?:\s|$)))")
"""What Discord reads as a list, a heading, a quote or small print, up to the sign that makes it one."""
_MOST_HEADINGS = 3
_SMALL_GRAVE = "\u02cb"
"""Looks like a backtick within code, and ends none."""
_FENCE = re.compile("`(?=``)")


class DiscordWriter:
    bullet = "- "
    task = "- "

    def __init__(self, *, aligned: bool) -> None:
        self._aligned = aligned
        self._parts = list[str]()
        self._quoted = False
        self._quote_begins = False
        self._line_begins = True
        """Nothing but bullets and the like stands before what comes next."""
        self._prefix_due = True
        self._in_link = False

    def message(self) -> str:
        return "".join(self._parts)

    # ---- what a reader calls

    def end_lines(self, count: int) -> None:
        empty = "> \n" if self._quoted and not self._quote_begins else "\n"
        self._parts.append("\n" + empty * (count - 1))
        self._line_begins = self._prefix_due = True

    def mark(self, text: str) -> None:
        self._write(text)
        self._line_begins = True

    def text(self, text: str) -> None:
        for part, is_address in addresses(visible(text)):
            self._write(f"<{part}>" if is_address and not self._in_link else self._escaped(part))

    def code(self, code: str) -> None:
        code = visible(code)
        if code.strip():
            self._write(f"`{code.replace('`', _SMALL_GRAVE)}`")

    def open_style(self, style: Style) -> None:
        self._write(_STYLES[style])

    def close_style(self, style: Style) -> None:
        self._write(_STYLES[style])

    def open_heading(self, level: int) -> None:
        self._write("#" * level + " " if level <= _MOST_HEADINGS else "**")

    def close_heading(self, level: int) -> None:
        if level > _MOST_HEADINGS:
            self._write("**")

    def open_quote(self) -> None:
        self._quoted = self._quote_begins = True

    def close_quote(self) -> None:
        self._quoted = False

    def open_link(self, address: str, label: str) -> None:
        self._in_link = label != address

    def close_link(self, address: str, label: str) -> None:
        """Show where the link leads: Discord asks nobody before it opens one."""
        if self._in_link and address.lower() != f"mailto:{label.lower()}":
            address = visible(address)
            self._write(f" (<{address}>)" if is_web(address) else f" ({self._escaped(address)})")
        self._in_link = False

    def code_block(self, code: str, language: str) -> None:
        code = _FENCE.sub(f"`{WORD_JOINER}", visible(code).strip("\n"))
        lines = f"```{language}\n{code}\n```"
        self._write(lines.replace("\n", "\n> ") if self._quoted else lines)

    def table(self, table: Table) -> None:
        self.code_block(aligned_table(table) if self._aligned else compact_table(table), "")

    # ---- lines

    def _write(self, text: str) -> None:
        if self._prefix_due and self._quoted:
            self._parts.append("> ")
        self._quote_begins = self._prefix_due = self._line_begins = False
        self._parts.append(text)

    def _escaped(self, text: str) -> str:
        escaped = _SIGNS.sub(r"\\\g<0>", text)
        start = _BLOCK_START.match(escaped) if self._line_begins else None
        return f"{escaped[: start.end()]}\\{escaped[start.end() :]}" if start else escaped
