"""Markdown as the chat shows it: headings on the left, code without a box, nothing hidden."""

from __future__ import annotations

from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text

PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")
"""HTML and definitions of links are text like any other: they would hide what the agent has said."""
LEXERS = frozenset(
    [
        "bash",
        "c",
        "c++",
        "console",
        "cpp",
        "css",
        "diff",
        "docker",
        "dockerfile",
        "go",
        "html",
        "ini",
        "java",
        "javascript",
        "js",
        "json",
        "jsx",
        "kotlin",
        "lua",
        "php",
        "py",
        "pycon",
        "python",
        "python3",
        "rb",
        "rs",
        "ruby",
        "rust",
        "scss",
        "sh",
        "shell",
        "sql",
        "swift",
        "toml",
        "ts",
        "tsx",
        "typescript",
        "xml",
        "yaml",
        "yml",
        "zsh",
    ]
)
"""Languages whose code is coloured. Lexers of others take minutes for a page of text that was made for it."""
MAX_LEXED = 3_000
"""Characters of code in one piece that are coloured. A lexer's time can grow with the square: it takes half a second
for these at worst."""


class _LeftHeading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _PlainCode(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        syntax = Syntax(code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True)
        yield Padding(syntax if code else Text(""), (0, 0, 0, 2))


class _Line(MarkdownElement):
    new_line = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("─" * min(options.max_width, 40), "markdown.hr")


class _Item(ListItem):
    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        width = len(str(last_number)) + 3
        lines = console.render_lines(self.elements, options.update(width=max(options.max_width - width, 8)), pad=False)
        style = console.get_style("markdown.item.number", default="none")
        for at, line in enumerate(lines):
            yield Segment(f"{number}. ".rjust(width), style) if at == 0 else Segment(" " * width)
            yield from line
            yield Segment.line()


class Prose(Markdown):
    """A piece of Markdown. Its text must be safe for a terminal."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _PlainCode,
        "code_block": _PlainCode,
        "hr": _Line,
        "list_item_open": _Item,
    }

    def __init__(self, markup: str) -> None:
        super().__init__("", hyperlinks=False)
        self.markup = markup
        self.parsed = PARSER.parse(markup)
        for inline in (one for block in self.parsed for one in block.children or ()):
            if inline.type == "softbreak":  # a model that ends a line means it: an address, a list without marks
                inline.type = "hardbreak"
        left = MAX_LEXED
        for block in self.parsed:
            if block.type == "fence":
                left -= len(block.content)
                language = block.info.strip().partition(" ")[0].lower()
                block.info = language if language in LEXERS and left >= 0 else "text"
