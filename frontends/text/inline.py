"""Reads what stands within a paragraph: text, emphasis, code, links."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it.token import Token

from .writer import Style, Writer

_STYLES: dict[str, Style] = {"strong": "bold", "em": "italic", "s": "strikethrough"}
_BREAKS = ("softbreak", "hardbreak")


class InlineReader:
    def __init__(self, writer: Writer, *, line_break: str) -> None:
        self._writer = writer
        self._line_break = line_break
        self._link: tuple[str, str] | None = None
        """The address and the label of the link that is being read."""

    def read(self, tokens: Sequence[Token]) -> None:
        for at, token in enumerate(tokens):
            match token.type:
                case "text":
                    self._writer.text(token.content)
                case "softbreak" | "hardbreak":
                    self._break()
                case "code_inline":
                    self._writer.code(token.content)
                case "link_open":
                    self._open_link(_address(token, "href"), _label(tokens, at + 1))
                case "link_close":
                    self._close_link()
                case "image":
                    self._image(token)
                case _:
                    self._style(token)

    def _break(self) -> None:
        if self._line_break == "\n":
            self._writer.end_lines(1)
        else:
            self._writer.text(self._line_break)

    def _style(self, token: Token) -> None:
        style = _STYLES.get(token.tag)
        if style and token.nesting > 0:
            self._writer.open_style(style)
        elif style:
            self._writer.close_style(style)

    def _image(self, token: Token) -> None:
        label = plain_text(token.children or [])
        if self._link:
            self._writer.text(label)
            return
        self._open_link(_address(token, "src"), label)
        self._writer.text(label)
        self._close_link()

    def _open_link(self, address: str, label: str) -> None:
        label = label.strip()
        self._link = (address, label or address)
        self._writer.open_link(*self._link)
        if not label:
            self._writer.text(address)

    def _close_link(self) -> None:
        if self._link:
            self._writer.close_link(*self._link)
        self._link = None


def plain_text(tokens: Sequence[Token]) -> str:
    """Return the text in one line, each link with its address."""
    parts = list[str]()
    for at, token in enumerate(tokens):
        if token.type in ("text", "code_inline"):
            parts.append(token.content)
        elif token.type in _BREAKS:
            parts.append(" ")
        elif token.type == "image":
            parts.append(plain_text(token.children or []))
        elif token.type == "link_open":
            address = _address(token, "href")
            if _label(tokens, at + 1) != address:
                parts.append(f"{address} ")
    return "".join(parts)


def _label(tokens: Sequence[Token], start: int) -> str:
    """Return the text of the link that begins there."""
    end = next((at for at in range(start, len(tokens)) if tokens[at].type == "link_close"), len(tokens))
    return plain_text(tokens[start:end])


def _address(token: Token, name: str) -> str:
    return str(token.attrGet(name) or "")
