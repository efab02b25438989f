"""Lists of hosts as people write them: `example.org`, `*.python.org`, `*`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...errors import ToolFailure
from .urls import canonical_host

_WILD = "*."


@dataclass(frozen=True, slots=True)
class HostPatterns:
    """A name means itself, `*.name` all below that name but not itself, `*` every host. Addresses mean themselves."""

    names: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    everything: bool = False

    @classmethod
    def from_patterns(cls, patterns: Iterable[str]) -> HostPatterns:
        """Raises ValueError for what is no pattern."""
        names: set[str] = set()
        suffixes: list[str] = []
        everything = False
        for pattern in patterns:
            if pattern == "*":
                everything = True
            elif pattern.startswith(_WILD):
                suffixes.append(f".{_host(pattern.removeprefix(_WILD), pattern)}")
            else:
                names.add(_host(pattern, pattern))
        return cls(frozenset(names), tuple(suffixes), everything)

    def match(self, host: str) -> bool:
        """Whether a canonical host is one of them."""
        return self.everything or host in self.names or host.endswith(self.suffixes)


def split_patterns(text: str) -> list[str]:
    """The patterns of a list with commas or blanks between them."""
    return re.split(r"[,\s]+", text.strip(", \t\n")) if text.strip(", \t\n") else []


def _host(text: str, pattern: str) -> str:
    try:
        return canonical_host(f"[{text}]" if ":" in text else text)
    except ToolFailure as error:
        raise ValueError(f"{pattern!r} is no host; write example.org, *.python.org or *") from error
