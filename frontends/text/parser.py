"""Markdown of a model, parsed at a cost that is known: CommonMark with tables and strikethrough."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_block import fence
from markdown_it.token import Token

_MOST_NESTING = 40
_MOST_BRACKETS = 400
_MOST_MARKS = 1_000
_MOST_CELLS = 4_000
_DELIMITER = re.compile(r"^[ \t>]*[|:-][|: \t-]*$", re.MULTILINE)


class _Parser(MarkdownIt):
    """Addresses stay as they were written: they are shown. HTML, definitions of links and indented code are text like
    any other. The first two would hide what the agent has said, and the rest of a split list is indented."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False, "maxNesting": _MOST_NESTING})
        self.enable(["strikethrough", "table"]).disable(["reference", "code", "fence"])
        # A code block comes first, or its first line may be the head of a table.
        self.block.ruler.before("table", "code_block", fence, {"alt": ["paragraph", "blockquote", "list"]})

    def normalizeLink(self, url: str) -> str:  # noqa: N802 the name is the library's
        return url

    def normalizeLinkText(self, link: str) -> str:  # noqa: N802
        return link


_FULL = _Parser()
_PLAIN = _Parser().disable(["table", "list", "blockquote", "emphasis", "strikethrough", "link", "image"])
"""For what nobody writes to be read: thousands of brackets, marks or cells, and quotes in quotes without end."""


def parse(markdown: str) -> Sequence[Token]:
    """Return the tokens of a text of the length of a message."""
    if not _is_costly(markdown):
        tokens = _FULL.parse(markdown)
        if all(token.level < _MOST_NESTING - 2 for token in tokens):
            return tokens
    return _PLAIN.parse(markdown)


def _is_costly(markdown: str) -> bool:
    columns = max((line.count("|") for line in _DELIMITER.findall(markdown)), default=0)
    return (
        markdown.count("[") > _MOST_BRACKETS
        or sum(map(markdown.count, "*_~")) > _MOST_MARKS
        or columns * markdown.count("\n") > _MOST_CELLS
    )
