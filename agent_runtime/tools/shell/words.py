"""Words of shell commands, as rules write them, and the names to which bash itself gives a meaning."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

_AS_THEY_ARE = frozenset(("{}", "!", "^", "[", "]", "[[", "]]"))


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = names("if then elif else fi case esac for select while until do done in function time { } [[ ]] ! coproc")
BUILTINS = names(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo "
    "enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf "
    "pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit "
    "umask unalias unset wait"
)
SHELLS = names("ash bash csh dash fish ksh mksh sh tcsh yash zsh")


class NotLiteral(Exception):
    """The script is not of the subset in which every command is known; says why."""


@dataclass(frozen=True, slots=True)
class Word:
    raw: str
    """As it is written in the script."""
    value: str
    """What the program gets; of an open word, the same as `raw`."""
    start: str | None = None
    """Of an open word, which may become others or several: the beginning that is certain."""

    @property
    def shown(self) -> str:
        return self.value if self.start is not None else shown(self.value)


def shown(value: str) -> str:
    """Write a word as rules do: quoted only where it must be."""
    return value if value in _AS_THEY_ARE else shlex.quote(value)


def program_name(word: str) -> str:
    """The name of a program without its folder."""
    return word.rpartition("/")[2]
