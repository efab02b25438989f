"""The reader for rules that deny: the commands that can be seen in a script, whatever else it does.

It takes every text for a script and guesses where it must: in substitutions, loops and functions, and among the
arguments of programs that run others. It may name too much, and misses what is only put together when the script runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .words import SHELLS, program_name, quote_word, word_set

MAX_COMMANDS = 500
"""Commands that are named."""
MAX_COMMANDS_LENGTH = 512 * 1024
"""Characters of them all."""
MAX_SUBSTITUTION_LENGTH = 1000
"""Characters of a substitution that are shown in the command around it."""
MAX_SUFFIXES = 32
"""Words of a program's arguments at which another command may begin."""
MAX_TOKENS = 20_000
"""Pieces of text that are looked at, and"""
MAX_READ_LENGTH = 256 * 1024
"""characters: those of scripts within the script too."""

_WRAPPER_PROGRAMS = SHELLS | word_set(
    "builtin busybox chronic chroot chrt command coproc doas entr env eval exec expect fakeroot find firejail flock "
    "gosu ionice ltrace nice nohup nsenter numactl parallel pkexec prlimit proot runuser rlwrap script setarch "
    "setpriv setsid ssh stdbuf strace su su-exec sudo systemd-run taskset tini time timeout toybox trap unbuffer "
    "unshare valgrind watch xargs xvfb-run"
)
"""Programs and builtins that run what their arguments say."""
_SCRIPT_RUNNERS = SHELLS | word_set("eval parallel script ssh su trap watch")
"""Those of them to which one argument may be a whole script."""
_LEADING_KEYWORDS = word_set("if then elif else while until do { } ! fi done esac")
_LOOPS = word_set("for select case")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_TOKEN = re.compile(
    r"""
      (?P<gap>(?:[ \t]|\\\n)+)
    | (?P<document><<-?[ \t]*['"\\]?[A-Za-z0-9_.-]+['"]?)
    | (?P<redirect>&>>?|[0-9]*(?:>>|>\||>&|<<<|<&|<>|>(?!\()|<(?!\()))
    | (?P<pipe>\|&?(?!\|))
    | (?P<end>\|\||&&?|;[;&]*|\n)
    | (?P<bracket>[$<>]?\(|\)|`)
    | (?P<literal>'[^']*+'|"(?:[^"\\$`]++|\\.)*+"|\\.|[^\s;&|<>()`"'\\$*?\[~{\#]++)
    | (?P<active>\$'(?:[^'\\]|\\.)*+'|\$?"(?:[^"\\]++|\\.)*+"|\$[A-Za-z0-9_]*|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SUBSTITUTED = re.compile(r"\$\(((?:[^()]++|\([^()]*+\))*+)|`([^`]*+)")
_ESCAPED = re.compile(r'\\([$`"\\\n])')
_UNKNOWN_NAME = re.compile(r"[$`*?\[{)}]")
_ACTIVE = re.compile(r"[$`]")
_SCRIPT = re.compile(r"[\s;&|]")
_TESTS = frozenset(("[", "[["))
_WRITE_OPERATORS = frozenset((">", ">>", ">|", "&>", "&>>", ">&"))

_Token = tuple[str, str]
"""Its kind and its text."""


@dataclass(frozen=True, slots=True)
class SeenCommands:
    texts: tuple[str, ...]
    pipelines: tuple[str, ...]
    writes: tuple[str, ...]
    anything: bool
    """The name of some program is only known when the script runs, or there is more than can be named."""


def find_commands(script: str) -> SeenCommands:
    """Name the commands in a script. Never raises."""
    notes = _Notes([script])
    characters_left = MAX_READ_LENGTH
    while notes.waiting and notes.tokens and characters_left > 0:
        now = notes.waiting.pop()
        characters_left -= len(now) + 1
        _read_script(now, notes)
    anything = notes.anything or bool(notes.waiting) or not notes.tokens
    return SeenCommands(tuple(notes.texts), tuple(notes.pipelines), tuple(notes.writes), anything)


def _read_script(script: str, notes: _Notes) -> None:
    """Split a script where commands end, and note each with what is within its brackets."""
    tokens: list[_Token] = []
    piped: list[tuple[str, str]] = []
    documents: list[str] | None = [] if "((" not in script else None  # where that is, `<<` may be a shift
    at = 0
    while at < len(script) and notes.tokens and (token := _TOKEN.match(script, at)):
        notes.tokens -= 1
        at = token.end()
        kind = token.lastgroup or ""
        text = token[0]
        if text == "#" and (not tokens or tokens[-1][0] in {"gap", "bracket"}):
            end = script.find("\n", at)
            at = end if end >= 0 else len(script)
        elif kind not in {"pipe", "end"}:
            tokens.append((kind, text))
            if kind == "document" and documents is not None:
                documents.append(text)
        else:
            notes.add_line(tokens, piped, more=kind == "pipe")
            tokens = []
            if text == "\n" and documents:
                at, documents = _skip_documents(documents, script, at, notes)
    notes.add_line(tokens, piped, more=False)


def _skip_documents(documents: list[str], script: str, at: int, notes: _Notes) -> tuple[int, list[str] | None]:
    """Go behind the here-documents that begin here. Where one has no end, no more are looked for."""
    for document in documents:
        name = document.strip("<- \t'\"\\")
        tabs = "\t*" if document.startswith("<<-") else ""
        found = re.compile(rf"^{tabs}{re.escape(name)}$", re.MULTILINE).search(script, at)
        if found is None:
            return at, None
        if document.endswith(name) and "\\" not in document:
            notes.add_substitutions(script[at : found.start()])
        at = found.end()
    return at, []


@dataclass(slots=True)
class _Word:
    raw: str
    value: str | None
    """None: only known when it runs."""

    @property
    def text(self) -> str:
        return self.raw if self.value is None else quote_word(self.value)

    @property
    def name(self) -> str:
        return program_name(self.value or self.raw.strip('"'))

    @property
    def is_unknown_program(self) -> bool:
        """Tell whether no program is named, if this stands where one should."""
        return (
            self.value is None and _UNKNOWN_NAME.search(program_name(self.raw)) is not None and self.raw not in _TESTS
        )


@dataclass(slots=True)
class _Notes:
    """What was seen so far."""

    waiting: list[str]
    """Scripts that are still to be read."""
    texts: dict[str, None] = field(default_factory=dict[str, None])
    pipelines: list[str] = field(default_factory=list[str])
    writes: list[str] = field(default_factory=list[str])
    anything: bool = False
    size: int = 0
    tokens: int = MAX_TOKENS

    def add_line(self, tokens: list[_Token], piped: list[tuple[str, str]], *, more: bool) -> None:
        """Note what stands between two ends of commands. Of what is piped it may be the outermost command or the one
        beside the pipe."""
        ended, opened = _split_brackets(tokens)
        texts = [self.add_command(self._words(part)) for part in (*ended, *opened)]
        outer = texts[len(ended)]
        if more:
            piped.append((outer, texts[-1]))
        elif piped:
            orders = ([*(one for one, _ in piped), outer], [*(one for _, one in piped), texts[0]])
            self.pipelines += dict.fromkeys(" | ".join(order) for order in orders)
            piped.clear()

    def add_substitutions(self, text: str) -> None:
        self.waiting += [found[1] or found[2] for found in _SUBSTITUTED.finditer(text) if found[1] or found[2]]

    def _words(self, tokens: list[_Token]) -> list[_Word]:
        words: list[_Word] = []
        raw = ""
        value = ""
        target = ""
        known = True
        for kind, text in [*tokens, ("gap", "")]:
            if kind in {"gap", "redirect", "document"}:
                if raw and not target:
                    words.append(_Word(raw, value if known else None))
                elif target in _WRITE_OPERATORS and raw and not (target == ">&" and re.fullmatch("[0-9]+|-", raw)):
                    self.writes.append(value if known else raw)
                if raw or kind == "redirect":
                    target = text.lstrip("0123456789") if kind == "redirect" else ""
                raw = ""
                value = ""
                known = True
                continue
            raw += text
            known = known and (kind == "literal" or text == "#")
            value += _unquote(text) if kind == "literal" else text
            if kind == "active" and text.endswith('"'):
                self.add_substitutions(text)
        return words

    def add_command(self, words: list[_Word]) -> str:
        """Note a simple command and what it may run; its text."""
        words = _without_leading(words)
        if not words:
            return ""
        texts = [one.text for one in words]
        text = " ".join(texts)
        first = words[0]
        if text != ":" and not text.startswith(": "):  # which does nothing
            self._add_text(text)
        self.anything |= first.is_unknown_program
        if first.value is None:
            self._add_text(" ".join((first.name, *texts[1:])))
        if first.name in _WRAPPER_PROGRAMS:
            for at in range(1, min(len(words), MAX_SUFFIXES)):
                self._add_text(" ".join(texts[at:]))
            self._add_wrapped(words)
        return text

    def _add_wrapped(self, words: list[_Word]) -> None:
        at = next((at for at, one in enumerate(words[:MAX_SUFFIXES]) if one.name in _SCRIPT_RUNNERS), None)
        if at is None:
            self.anything |= any(one.is_unknown_program for one in words[1:2])
            return
        name = words[at].name
        arguments = words[at + 1 :]
        self.waiting += [one.value for one in arguments if one.value and _SCRIPT.search(one.value)]
        if name not in SHELLS or any(re.match("-[a-z]*c", one.raw) for one in arguments):
            self.anything |= any(one.value is None and _ACTIVE.search(one.raw) for one in arguments)
        self.anything |= name in SHELLS and all(one.raw.startswith("-") for one in arguments)

    def _add_text(self, text: str) -> None:
        if len(self.texts) >= MAX_COMMANDS or self.size > MAX_COMMANDS_LENGTH:
            self.anything = True
        elif text not in self.texts:
            self.texts[text] = None
            self.size += len(text)


def _split_brackets(tokens: list[_Token]) -> tuple[list[list[_Token]], list[list[_Token]]]:
    """Take apart what is within brackets: the commands that end with one, and those that are not closed. A substitution
    is a word of the command around it too."""
    ended = list[list[_Token]]()
    opened = list[list[_Token]]([[]])
    for kind, text in tokens:
        outside = opened[-2][-1][1] if len(opened) > 1 and opened[-2] else ""
        if kind != "bracket":
            opened[-1].append((kind, text))
        elif text == ")" or (text == outside == "`"):
            ended.append(opened.pop())
            if outside:
                raw = "".join(one for _, one in ended[-1])
                opened[-1][-1] = ("active", f"{outside}{raw[:MAX_SUBSTITUTION_LENGTH]}{text}")
            opened = opened or [[]]
        elif text == "(":
            ended.append(opened.pop())
            opened += [[], []]
        else:
            opened[-1].append(("active", text))
            opened.append([])
    return ended, opened


def _without_leading(words: list[_Word]) -> list[_Word]:
    """Leave out keywords and assignments in front of a command."""
    raws = [one.raw for one in words]
    at = 0
    while at < len(words):
        if raws[at] in _LEADING_KEYWORDS or _ASSIGNMENT.match(raws[at]):
            at += 1
        elif raws[at] == "function":
            at += 2
        elif raws[at] in _LOOPS:
            at = raws.index("do", at) if "do" in raws[at:] else len(words)
        else:
            break
    return words[at:]


def _unquote(text: str) -> str:
    if text.startswith("'"):
        return text[1:-1]
    if text.startswith('"'):
        return _ESCAPED.sub(lambda one: one[1].removeprefix("\n"), text[1:-1])
    return text[1:] if text.startswith("\\") else text
