"""Reads the Markdown of a model and passes its parts to a writer.

Line breaks and empty lines are those of the Markdown: a model that ends a line means it. Nothing that is added is
longer than the marks in its place, so that a message is never longer than its `Measure`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it.token import Token

from .inline import InlineReader, plain_text
from .parser import parse
from .table import Alignment, Table
from .writer import RULE, Writer

_TASK = re.compile(r"\[([ xX])\] ")
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}", re.ASCII)
_INDENTATION = "  "


def read(markdown: str, writer: Writer) -> None:
    """Write a text of the length of a message."""
    Reader(writer).blocks(parse(markdown))


class Reader:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._end: int | None = None
        """The line after the last block that was written."""
        self._lists = 0
        self._quotes = 0
        self._marks = ""
        """Bullets and numbers of list items that have no text yet."""
        self._marks_line = 0

    def blocks(self, tokens: Sequence[Token]) -> None:
        for at, token in enumerate(tokens):
            match token.type:
                case "paragraph_open":
                    self._paragraph(token, tokens[at + 1])
                case "heading_open":
                    self._heading(token, tokens[at + 1])
                case "table_open":
                    self._begin(token)
                    self._writer.table(_table(tokens, at))
                case "fence" if token.content.strip():
                    self._begin(token)
                    language = _LANGUAGE.match(token.info.strip())
                    self._writer.code_block(token.content.removesuffix("\n"), language[0].lower() if language else "")
                case "hr":
                    self._begin(token)
                    self._writer.text(RULE)
                case _:
                    self._container(token)

    def _container(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open" | "ordered_list_open" | "bullet_list_close" | "ordered_list_close":
                self._lists += token.nesting
            case "list_item_open":
                mark = f"{token.info}{token.markup} " if token.info else self._writer.bullet
                self._marks = (self._marks or _INDENTATION * (self._lists - 1)) + mark
                self._marks_line = _first_line(token)
            case "list_item_close" if self._marks:
                self._begin_lines(self._marks_line, self._marks_line + 1, has_text=False)
            case "blockquote_open":
                self._quotes += 1
                if self._quotes == 1:
                    self._writer.open_quote()
            case "blockquote_close":
                self._quotes -= 1
                if not self._quotes:
                    self._writer.close_quote()
            case _:
                pass

    def _paragraph(self, token: Token, inline: Token) -> None:
        children = inline.children or []
        task = _TASK.match(inline.content) if self._marks.endswith(self._writer.bullet) else None
        if task and children and children[0].content.startswith(task[0]):
            checkbox = "☐ " if task[1] == " " else "☑ "
            self._marks = self._marks.removesuffix(self._writer.bullet) + self._writer.task + checkbox
            children[0].content = children[0].content.removeprefix(task[0])
        self._begin(token)
        InlineReader(self._writer, line_break="\n").read(children)

    def _heading(self, token: Token, inline: Token) -> None:
        if not inline.content:
            return
        level = int(token.tag[1:])
        self._begin(token)
        self._writer.open_heading(level)
        InlineReader(self._writer, line_break=" ").read(inline.children or [])
        self._writer.close_heading(level)

    def _begin(self, token: Token) -> None:
        first, end = token.map or (0, 0)
        self._begin_lines(first, end)

    def _begin_lines(self, first: int, end: int, *, has_text: bool = True) -> None:
        if self._end is not None:
            self._writer.end_lines(2 if first > self._end else 1)
        mark = self._marks or _INDENTATION * self._lists
        if mark:
            self._writer.mark(mark if has_text else mark.rstrip())
        self._end = end
        self._marks = ""


def _first_line(token: Token) -> int:
    return token.map[0] if token.map else 0


def _table(tokens: Sequence[Token], at: int) -> Table:
    rows = list[list[str]]()
    alignments = list[Alignment]()
    while tokens[at].type != "table_close":
        token = tokens[at]
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(plain_text(token.children or []))
        elif token.type == "th_open":
            style = str(token.attrGet("style") or "")
            alignments.append("right" if "right" in style else "center" if "center" in style else "left")
        at += 1
    return Table(rows, alignments)
