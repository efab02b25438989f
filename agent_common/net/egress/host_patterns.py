"""Host patterns in settings and permissions: `example.org`, `*.python.org`, `*`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...errors import ToolFailure
from .urls import canonical_host

_WILD = "*."


@dataclass(frozen=True, slots=True)
class HostPatterns:
    """Host patterns. A name or address matches itself, `*.name` all subdomains of the name, `*` every host."""

    names: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    everything: bool = False

    @classmethod
    def from_patterns(cls, patterns: Iterable[str]) -> HostPatterns:
        """Parse patterns. Raises ValueError if one is malformed."""
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
        """Whether a canonical host matches one of the patterns."""
        return self.everything or host in self.names or host.endswith(self.suffixes)


def split_patterns(text: str) -> list[str]:
    """Split a list of patterns that are separated by commas or white space."""
    return re.split(r"[,\s]+", text.strip(", \t\n")) if text.strip(", \t\n") else []


def _host(text: str, pattern: str) -> str:
    try:
        return canonical_host(f"[{text}]" if ":" in text else text)
    except ToolFailure as error:
        raise ValueError(f"{pattern!r} is not a host; write example.org, *.python.org or *") from error
