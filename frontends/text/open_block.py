"""What is open at the beginning of a line: a code block or a table, which the next message has to open again."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LEAD = r"[ \t>]{0,40}(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,8}){0,8}[ \t>]{0,40}"
"""Quotes, bullets and numbers before the text of a line."""
_FENCE = re.compile(rf"(?P<lead>{_LEAD})(?P<marks>`{{3,}}|~{{3,}})(?P<info>.*)")
_DELIMITER = re.compile(r"[ \t>]*(?:\|[ \t]*:?-|:-|-[-:]*[ \t]*\|)[|: \t-]*")
_QUOTE = re.compile(rf"{_LEAD}>")
_QUOTE_PREFIX = re.compile(r"(?: {0,3}> ?){1,8}")
_NO_LEAD = re.compile(r"[^\s>]")
_HEADING = re.compile(r" {0,3}#{1,6} ")
_MOST_REPEATED = 200
_KNOWN = 80
"""A message that is full has at least so many characters of the line that it begins with."""


@dataclass(frozen=True, slots=True)
class OpenBlock:
    """A code block if it has marks, otherwise a table if it has an opening."""

    opening: str = ""
    """What another message begins with if it continues the block; nothing if that would take too much of it."""
    closing: str = ""
    marks: str = ""

    @property
    def is_code(self) -> bool:
        return bool(self.marks)

    @property
    def is_surely_code(self) -> bool:
        """Tell whether its lines are code whatever they are: in a quote or a list they may leave it."""
        return self.is_code and self.opening.startswith(self.marks)

    def is_closed_by(self, line: str) -> bool:
        """Tell whether the line is the last one of this code block."""
        marks_only = line.strip(" \t>\n")
        return len(marks_only) >= len(self.marks) and not marks_only.strip(self.marks[0])

    def has(self, line: str) -> bool:
        """Tell whether the line still belongs to the block."""
        if self.is_code:
            return ">" not in self.closing or line.lstrip().startswith(">")
        return "|" in line[:_KNOWN]


NO_BLOCK = OpenBlock()


def opens_code(line: str) -> str:
    """Return what stands at the beginning of a line that opens a code block, up to the end of its marks."""
    match = _FENCE.match(line) if _may_open_code(line) else None
    return f"{match['lead']}{match['marks']}" if match else ""


def opens_section(line: str) -> bool:
    """Tell whether a message may well begin with this line although no empty one precedes it."""
    return bool(opens_code(line)) or is_heading(line)


def is_heading(line: str) -> bool:
    return "#" in line and _HEADING.match(line) is not None


def is_quoted(line: str) -> bool:
    return ">" in line and _QUOTE.match(line) is not None


def quote_prefix(line: str) -> str:
    match = _QUOTE_PREFIX.match(line)
    return match[0] if match else ""


def after_line(block: OpenBlock, previous: str, line: str) -> OpenBlock:
    """Return what is open after a whole line, which follows another one."""
    if block.is_code and block.has(line):
        return NO_BLOCK if block.is_closed_by(line) else block
    match = _FENCE.match(line) if _may_open_code(line) else None
    if match and not (match["marks"][0] == "`" and "`" in match["info"]):
        return _code(_NO_LEAD.sub(" ", match["lead"]), match["marks"], match["info"].strip())
    if block.opening and not block.is_code:
        return block if block.has(line) else NO_BLOCK
    if "|" in previous and _DELIMITER.fullmatch(line) and len(previous) + len(line) <= _MOST_REPEATED:
        return OpenBlock(f"{previous}\n{line}\n")
    return NO_BLOCK


def _may_open_code(line: str) -> bool:
    return "```" in line or "~~~" in line


def _code(lead: str, marks: str, info: str) -> OpenBlock:
    if len(marks) > _MOST_REPEATED // 4:
        return OpenBlock(marks=marks)
    info = info if len(info) <= _MOST_REPEATED // 4 else ""
    return OpenBlock(f"{lead}{marks}{info}\n", f"\n{lead}{marks}", marks)
