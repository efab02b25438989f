"""Text of others within the Markdown of a message: names, arguments, errors. It can neither end a code block nor begin
one, nor be taken for a link or for the bot's own words."""

from __future__ import annotations

import re

from agent_common.line_text import escape_invisible
from agent_common.lookalikes import escape_lookalikes

_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~@:/&])")
_TICKS = re.compile("`+")


def one_line(text: str, limit: int) -> str:
    """Return the text as one line of at most `limit` characters, with nothing invisible in it."""
    most = 8 * limit + 1000  # what is behind it is not looked at, however long it is
    line = escape_invisible(" ".join(text[:most].split()))
    return line if len(line) <= limit and len(text) <= most else line[: limit - 1].rstrip() + "…"


def plain(text: str, limit: int = 200) -> str:
    """Return the text as Markdown that shows it as it is, in one line."""
    return _MARKS.sub(r"\\\1", one_line(text, limit))


def code(text: str, limit: int = 60) -> str:
    """Return the text as code within a line; nothing for an empty one."""
    line = one_line(text, limit)
    if not line:
        return ""
    ticks = "`" * (longest_ticks(line) + 1)
    gap = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{gap}{line}{gap}{ticks}"


def exact(text: str) -> str:
    """Return the text with escapes in the place of what does not show, and of what looks like another letter: for what
    a person decides on."""
    return escape_lookalikes(escape_invisible(text))


def fenced(text: str, language: str = "") -> str:
    """Return the text as a block of code, line by line as it is, with nothing in it that is invisible or looks like
    another letter. Other line ends than `\\n` are none to a shell, and are escaped."""
    lines = [exact(line.expandtabs(4)) for line in text.removesuffix("\n").split("\n")]
    fence = "`" * max(3, longest_ticks(text) + 1)
    return "\n".join((f"{fence}{language}", *lines, fence))


def longest_ticks(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max((len(run) for run in _TICKS.findall(text)), default=0)
