"""The reader for rules that allow: it names every command of a script in a small subset of the shell.

The subset: plain words, quotes without expansions, `|` `&&` `||` `;` and lines, redirections to files, here-documents
with a quoted delimiter, globs in arguments. Everything else is refused and never guessed at, so that a construct that
this reader does not know is refused too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial

from .programs import Command, Write, commands_of
from .words import NotLiteral, Word

MAX_WORDS = 4000
MAX_DEPTH = 4
"""Scripts within scripts."""

# All alternatives begin with different characters and no repetition gives anything back, so text is passed over once.
_UNQUOTED = r"[A-Za-z0-9_.,:/+@%=^~!{}*?\[\]\#\u0080-\U0010ffff-]++"
_DOUBLE_QUOTED = r'"(?:[^"\\$`]++|\\.|\$(?=[ |)"]))*+"'
_WORD = rf"(?:{_UNQUOTED}|\\[^\n]|'[^']*+'|{_DOUBLE_QUOTED})++"


@cache
def _token_pattern() -> re.Pattern[str]:
    return re.compile(
        rf"""
          (?P<gap>[ \t](?:[ \t]|\\\n)*+ | \#[^\n]*+)
        | (?P<end>&&|\|\||[;|\n])
        | (?P<copy>[0-9]?>&[0-9](?![^ \t\n;|]))
        | (?P<document><<-?[ \t]*(?:'[A-Za-z0-9_.-]+'|"[A-Za-z0-9_.-]+")(?![^ \t\n;|&<>]))
        | (?P<redirect>&>>?|[0-9]?(?:>>|>\||[<>]))
        | (?P<word>{_WORD})
        """,
        re.VERBOSE | re.DOTALL,
    )


@cache
def _target_pattern() -> re.Pattern[str]:
    return re.compile(rf"[ \t]*+(?!\#)(?P<word>{_WORD})", re.DOTALL)


@cache
def _piece_pattern() -> re.Pattern[str]:
    return re.compile(
        rf"(?P<bare>{_UNQUOTED})|\\(?P<escaped>.)|'(?P<single>[^']*+)'|\"(?P<double>(?:[^\"\\]++|\\.)*+)\"", re.DOTALL
    )


_ESCAPED = re.compile(r'\\([$`"\\\n])')
_TILDE = re.compile(r"(?:^|[:=])~")
_GLOB = re.compile(r"[*?\[]")
_SAFE_WORD = re.compile(r"[A-Za-z0-9_.,:/+@%=-]*")


def read_commands(script: str, depth: int = 0) -> Iterator[Command | Write]:
    """Name each command that bash runs for `bash -c script`, and each file that it redirects to. Raises NotLiteral."""
    if depth > MAX_DEPTH:
        raise NotLiteral(f"it has more than {MAX_DEPTH} scripts within each other")
    strange = next((sign for sign in set(script) if not sign.isprintable() and sign not in "\n\t"), None)
    if strange is not None:
        raise NotLiteral(f"it has a character that cannot be seen (U+{ord(strange):04X})")
    lines = _Lines(script)
    for words in lines.read():
        yield from commands_of(words, partial(read_commands, depth=depth + 1))
    yield from lines.writes


@dataclass(slots=True)
class _Lines:
    """Splits a script into simple commands, without their redirections."""

    script: str
    at: int = 0
    count: int = 0
    words: list[Word] = field(default_factory=list[Word])
    writes: list[Write] = field(default_factory=list[Write])
    redirected: bool = False
    operator: str = ""
    """The one before this command."""
    document: str = ""
    """A here-document whose text begins with the next line."""

    def read(self) -> Iterator[list[Word]]:
        while self.at < len(self.script):
            token = _token_pattern().match(self.script, self.at)
            if token is None:
                raise NotLiteral(f"it uses {self.script[self.at : self.at + 2].strip()!r}")
            self.at = token.end()
            match token.lastgroup:
                case "word":
                    self._add_word(token[0])
                case "redirect":
                    self._redirect(writes=">" in token[0])
                case "copy":
                    self.redirected = True
                case "document":
                    self._begin_document(token[0])
                case "end":
                    yield from self._end_command(token[0])
                case _:
                    pass
        yield from self._end_command("\n")
        if self.operator in {"&&", "||", "|"} or self.document:
            raise NotLiteral("it ends too early")

    def _end_command(self, operator: str) -> Iterator[list[Word]]:
        words = self.words
        self.words = []
        if words:
            yield words
            self.operator = operator
        elif self.redirected or operator != "\n":
            raise NotLiteral(f"there is no command before `{operator.strip() or 'the end of a line'}`")
        self.redirected = False
        if operator == "\n" and self.document:
            self._skip_document()

    def _add_word(self, raw: str) -> None:
        self.count += 1
        if self.count > MAX_WORDS:
            raise NotLiteral(f"it has more than {MAX_WORDS} words")
        if self.script[self.at : self.at + 1] in {"<", ">"} and (raw.isdigit() or raw.startswith("{")):
            raise NotLiteral(f"`{raw}` in front of a redirection is not a word")
        self.words.append(_parse_word(raw))

    def _redirect(self, *, writes: bool) -> None:
        target = _target_pattern().match(self.script, self.at)
        file = None if target is None else _parse_word(target["word"])
        if target is None or file is None or file.certain_prefix is not None:
            raise NotLiteral("it redirects to what is not the plain name of a file")
        if writes:
            self.writes.append(Write(file.value))
        self.at = target.end()
        self.redirected = True

    def _begin_document(self, token: str) -> None:
        if self.document:
            raise NotLiteral("it has two here-documents on one line")
        self.document = token
        self.redirected = True

    def _skip_document(self) -> None:
        """Go to the line after the delimiter. Nothing in between is expanded, because the delimiter is quoted."""
        tabs = "\t*" if self.document.startswith("<<-") else ""
        name = re.split("['\"]", self.document)[1]
        found = re.compile(rf"^{tabs}{re.escape(name)}$\n?", re.MULTILINE).search(self.script, self.at)
        if found is None:
            raise NotLiteral("a here-document has no end")
        self.at = found.end()
        self.document = ""


def _parse_word(raw: str) -> Word:
    """A word without quotes. Raises NotLiteral where bash would put something else in its place."""
    if _SAFE_WORD.fullmatch(raw):
        return Word(raw, raw)
    value: list[str] = []
    unquoted_pieces: list[str] = []
    for piece in _piece_pattern().finditer(raw):
        kind = piece.lastgroup or ""
        text = piece[kind]
        value.append(_ESCAPED.sub(lambda one: one[1].removeprefix("\n"), text) if kind == "double" else text)
        unquoted_pieces.append(text if kind == "bare" else "\0" * len(piece[0]))
    unquoted = "".join(unquoted_pieces)
    if _TILDE.search(unquoted):
        raise NotLiteral(f"`~` in `{raw[:40]}` stands for a folder")
    if "{" in unquoted and ("," in raw or ".." in raw):
        raise NotLiteral(f"the braces in `{raw[:40]}` may stand for several words")
    glob = _GLOB.search(unquoted) if raw != "[" else None
    if glob is None:
        return Word(raw, "".join(value))
    start = raw[: glob.start()]
    return Word(raw, raw, certain_prefix=start if _SAFE_WORD.fullmatch(start) else "")
