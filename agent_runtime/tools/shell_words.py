"""One word of a shell command: what the program will get, where that can be known."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_ANSI = re.compile(
    r"\\(?:x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<short>[0-9a-fA-F]{1,4})|(?P<octal>[0-7]{1,3})|(?P<letter>[abeEfnrtv\\'\"?]))"
)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_GLOB = re.compile(r"[*?\[]|[@+!]\(|(?:^|[:=])~")
_BRACES = re.compile(r"\{.*(?:,|\.\.)", re.DOTALL)
_PLAIN = {"{}", "!", "^", "[", "]", "[[", "]]"}


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """What the program gets; the source, where that is only known when it runs."""
    literal: bool = True
    bare: bool = True
    """Nothing of it is quoted, so that it may be a keyword or an assignment."""
    split: bool = False
    """It may become several words, or none."""

    @property
    def shown(self) -> str:
        """How the word stands in a canonical text: quoted only where it must be."""
        plain = not self.literal or self.text in _PLAIN
        return self.text if plain else shlex.quote(self.text)


def names(text: str) -> frozenset[str]:
    """A set of names, written as one text."""
    return frozenset(text.split())


def source(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def word(node: Node) -> Word:
    """The word that this node stands for."""
    pieces, bare = _pieces(node)
    raw = source(node)
    if pieces is None:
        return Word(raw, literal=False, bare=raw == bare, split=node.type not in {"string", "process_substitution"})
    if _GLOB.search(bare) or _BRACES.search(bare):
        return Word(raw, literal=False, bare=raw == bare, split=True)
    return Word(pieces, bare=raw == bare)


def _pieces(node: Node) -> tuple[str | None, str]:
    """The text when all of it is literal, and the part of the source that is not quoted."""
    raw = source(node)
    match node.type:
        case "concatenation":
            return _joined(node)
        case "command_name" if node.child_count == 1:
            return _pieces(node.children[0])
        case "word" | "number" | "variable_name" | "test_operator" | "{" | "}":
            return _ESCAPED.sub(lambda found: found[1].removeprefix("\n"), raw), _ESCAPED.sub("", raw)
        case "raw_string":
            return raw[1:-1], ""
        case "ansi_c_string":
            return _ansi(raw[2:-1]), ""
        case "string" if all(child.type in {'"', "string_content"} for child in node.children):
            return _ESCAPED_IN_QUOTES.sub(lambda found: found[1].removeprefix("\n"), raw[1:-1]), ""
        case _:
            return None, ""


def _joined(node: Node) -> tuple[str | None, str]:
    """Flat: parts of a word are not words of several parts again."""
    text, bare = "", ""
    known = True
    for child in node.children:
        piece, unquoted = (None, "") if child.type == "concatenation" else _pieces(child)
        known = known and piece is not None
        text, bare = text + (piece or ""), bare + unquoted
    return text if known else None, bare


def _ansi(text: str) -> str | None:
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            out.append(text[at])
            at += 1
            continue
        found = _ANSI.match(text, at)
        if found is None:
            return None
        out.append(_decoded(found))
        at = found.end()
    whole = "".join(out)
    # Bytes beyond ASCII may be halves of a character, and a null byte ends the word.
    return None if "\0" in whole or any("\x7f" < char < "\u0100" for char in whole) else whole


def _decoded(found: re.Match[str]) -> str:
    if found["letter"]:
        return _ANSI_LETTERS.get(found["letter"], found["letter"])
    digits, base = (found["octal"], 8) if found["octal"] else (found["hex"] or found["short"], 16)
    return chr(int(digits, base))
