"""Words of shell commands, as rules write them, and the names to which bash itself gives a meaning."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

_NEVER_QUOTED = frozenset(("{}", "!", "^", "[", "]", "[[", "]]"))


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = word_set("if then elif else fi case esac for select while until do done in function time { } [[ ]] ! coproc")
BUILTINS = word_set(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo "
    "enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf "
    "pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit "
    "umask unalias unset wait"
)
SHELLS = word_set("ash bash csh dash fish ksh mksh sh tcsh yash zsh")


class NotLiteral(Exception):
    """The script is not of the subset in which every command is known; says why."""


@dataclass(frozen=True, slots=True)
class Word:
    raw: str
    """As it is written in the script."""
    value: str
    """What the program gets; of an open word, the same as `raw`."""
    certain_prefix: str | None = None
    """Of an open word, which may become others or several: the beginning that is certain."""

    @property
    def rule_text(self) -> str:
        return self.value if self.certain_prefix is not None else quote_word(self.value)


def quote_word(value: str) -> str:
    """Write a word as rules do: quoted only where it must be."""
    return value if value in _NEVER_QUOTED else shlex.quote(value)


def program_name(word: str) -> str:
    """The name of a program without its folder."""
    return word.rpartition("/")[2]
