"""What one simple command runs: itself, and the commands among its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .words import BUILTINS, KEYWORDS, SHELLS, NotLiteral, Word, program_name, quote_word, word_set

MAX_WRAPPERS = 8
"""Programs in front of one command that run it."""

_SAFE_BUILTINS = word_set(": [ cd echo exit false kill printf pwd test time true type")
"""Builtins that do not change what later commands are, nor evaluate their arguments but for `_evaluates`."""
_UNSAFE_BUILTINS = (BUILTINS | KEYWORDS) - _SAFE_BUILTINS
_NAME = re.compile(r"[A-Za-z0-9_./+][A-Za-z0-9_./+@:,-]*|:|\[")
_SAFE_ASSIGNMENT = (
    r"(?:(?:LANG|LC_[A-Z]+)=(?:C|POSIX|C\.UTF-8|[a-z]{2,3}_[A-Z]{2}\.(?:UTF-8|utf8))"
    r"|TZ=[A-Za-z0-9_+-][A-Za-z0-9_/+-]*|(?:CI|NO_COLOR)=[A-Za-z0-9]*)"
)
"""Variables that no program takes for a command, a file or an option. An encoding other than UTF-8 would change how
bash itself reads text."""
_DURATION = r"[0-9]+(?:\.[0-9]+)?[smhd]?"
_TRANSPARENT_WRAPPERS = {
    "env": re.compile(rf"env (?:{_SAFE_ASSIGNMENT} )*"),
    "nice": re.compile(r"nice (?:-n [0-9-]+ |-[0-9]+ )?"),
    "time": re.compile(r"time (?:-p )?"),
    "timeout": re.compile(rf"timeout (?:-k {_DURATION} |-s [A-Z0-9]+ |--foreground |--preserve-status )*{_DURATION} "),
}
"""Programs that run the command behind them and change nothing about it: only that command must be allowed."""
_WRAPPERS = {
    "nohup": re.compile(r"nohup "),
    "setsid": re.compile(r"setsid (?:-w )?"),
    "stdbuf": re.compile(r"stdbuf (?:-[ioe][0L] )+"),
    "sudo": re.compile(r"sudo (?:-n )?"),
    "xargs": re.compile(r"xargs (?:-[0rt] |-[LnP] ?[0-9]+ |-d '\\[0n]' |-I \{\} |'-I\{\}' )*"),
}
"""Programs that run the command behind them; both must be allowed."""
_INERT_PROGRAMS = word_set(
    "basename cat cksum cmp comm cut df diff dirname du echo expr false fold grep head id jq ls md5sum mkdir nl od "
    "paste printf pwd readlink realpath seq sha256sum sleep stat tac tail test touch tr true uname wc which whoami"
)
"""Programs that, with any arguments, run no other program, write to no file and change nothing for later commands."""
_FIND_EXEC_OPTIONS = word_set("-exec -execdir -ok -okdir")
_FILLED_ARGUMENT = Word("{}", "{}", certain_prefix="")
"""An argument that `find` or `xargs` puts in."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that runs."""

    text: str
    certain_prefix: str | None = None
    """Where some argument is only known when it runs: the beginning that is certain."""


@dataclass(frozen=True, slots=True)
class Write:
    """A file that a redirection writes to."""

    path: str


ReadScript = Callable[[str], Iterator[Command | Write]]


def commands_of(words: Sequence[Word], read: ReadScript) -> Iterator[Command | Write]:
    """Name the commands that one simple command runs; `read` reads a script among its arguments. Raises NotLiteral."""
    words = _skip_assignments(words)
    for _ in range(MAX_WRAPPERS):
        name = _require_program_name(words)
        wrapper = _TRANSPARENT_WRAPPERS.get(name) or _WRAPPERS.get(name)
        if wrapper is None or (len(words) == 1 and name != "time"):
            break
        line = _join_words(words)
        found = wrapper.match(line)
        if found is None or (name in _TRANSPARENT_WRAPPERS and words[0].raw != name):
            raise NotLiteral(f"{_quote_clipped(line)} may run any command")
        if name in _WRAPPERS:
            yield _to_command(words)
        words = words[found[0].count(" ") :]
        if name == "xargs":
            yield _filled_command([*words, _FILLED_ARGUMENT])
            return
    else:
        raise NotLiteral(f"it has more than {MAX_WRAPPERS} programs in front of one command")
    if _evaluates(name, words):
        raise NotLiteral(f"{_quote_clipped(_join_words(words))} may evaluate an argument")
    yield _to_command(words)
    if name == "find":
        yield from _find_exec_commands(words)
    elif name in SHELLS:
        yield from _shell_commands(name, words, read)


def suggested_pattern(text: str, *, writes: bool = False) -> str:
    """A pattern for a rule that would allow such commands for good. Most programs can be made to run another one, so it
    is the very text for all but a few, and for those too where the script writes files: a rule does not say which. In a
    pattern a star would be any text: it becomes any one character."""
    program = text.partition(" ")[0]
    return f"{program} *" if program in _INERT_PROGRAMS and not writes else text.replace("*", "?")


def _skip_assignments(words: Sequence[Word]) -> Sequence[Word]:
    at = 0
    while at < len(words) and _is_safe_assignment(words[at]):
        at += 1
    if at == len(words):
        raise NotLiteral("it sets a variable for later commands")
    return words[at:]


def _is_safe_assignment(word: Word) -> bool:
    """The name must not be quoted, or bash takes the word for a program."""
    name = word.raw.partition("=")[0]
    return word.value.startswith(f"{name}=") and re.fullmatch(_SAFE_ASSIGNMENT, word.value) is not None


def _require_program_name(words: Sequence[Word]) -> str:
    """The program's name without its folder. Raises NotLiteral where bash may make something else of the word."""
    first = words[0]
    if "=" in first.raw and first.certain_prefix is None:
        raise NotLiteral(f"{_quote_clipped(first.raw)} sets a variable that may change what programs do")
    if first.certain_prefix is not None or _NAME.fullmatch(first.value) is None:
        raise NotLiteral(f"{_quote_clipped(first.raw)} is not the plain name of a program")
    if first.value in _UNSAFE_BUILTINS:
        raise NotLiteral(f"`{first.value}` can run other commands or change what they are")
    return program_name(first.value)


def _evaluates(name: str, words: Sequence[Word]) -> bool:
    """Tell whether a builtin takes an argument for a variable: a subscript in its name runs commands."""
    if name in {"test", "["}:
        return any(word.certain_prefix is not None or word.value in {"-v", "-R"} for word in words)
    return name == "printf" and any(
        word.certain_prefix is not None or word.value.startswith("-") for word in words[1:2]
    )


def _find_exec_commands(words: Sequence[Word]) -> Iterator[Command]:
    """The commands that `find` runs."""
    if any(word.certain_prefix is not None for word in words):
        raise NotLiteral("a file's name may be an option of `find`")
    values = [word.value for word in words]
    at = 0
    while at < len(values):
        at += 1
        if values[at - 1] not in _FIND_EXEC_OPTIONS:
            continue
        end = at
        while end < len(values) and values[end] != ";" and values[end - 1 : end + 1] != ["{}", "+"]:
            end += 1
        if end in {at, len(values)}:
            raise NotLiteral(f"`{values[at - 1]}` of `find` has no command or no end")
        yield _filled_command(words[at:end])
        at = end


def _filled_command(words: Sequence[Word]) -> Command:
    """A command with arguments that are filled in. Where that one runs others, they could be what is filled in."""
    opened = [Word(one.raw, quote_word(one.value), certain_prefix="") if "{}" in one.value else one for one in words]
    name = _require_program_name(opened)
    if name in _TRANSPARENT_WRAPPERS or name in _WRAPPERS or name in SHELLS or name == "find":
        raise NotLiteral(f"`{name}` may run any command with arguments that are filled in")
    return _to_command(opened)


def _shell_commands(name: str, words: Sequence[Word], read: ReadScript) -> Iterator[Command | Write]:
    """`bash -c SCRIPT` runs the script, `bash FILE` is a program like others."""
    first, *rest = [word.value if word.certain_prefix is None else "-" for word in words[1:3]] or ["-"]
    if first == "-c" and rest and name in {"bash", "sh"}:
        if name == "sh" and "&>" in rest[0]:
            raise NotLiteral("`&>` is not the same to `sh`")
        yield from read(rest[0])
    elif first[:1] in {"", "-", "+"}:
        raise NotLiteral(f"what `{name}` reads is not known")


def _to_command(words: Sequence[Word]) -> Command:
    for at, word in enumerate(words):
        if word.certain_prefix is not None:
            return Command(_join_words(words), f"{_join_words(words[:at])} {word.certain_prefix}")
    return Command(_join_words(words))


def _join_words(words: Sequence[Word]) -> str:
    return " ".join(word.rule_text for word in words)


def _quote_clipped(text: str) -> str:
    return f"`{text if len(text) <= 60 else f'{text[:60]}...'}`"
