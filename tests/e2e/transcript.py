"""Transcripts in Markdown: commands and what they print, read from a page and held to the letter.

In a fenced block marked `console` a line that starts with `$ ` is a command, the lines below it are its output. `…`
stands for any text inside a line; a line that is nothing else stands for any number of lines. Blank lines at the end
of an output do not count.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ANY = "…"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Exchange:
    """One command and the output it must have."""

    command: str
    expected: str

    def fits(self, printed: str) -> bool:
        """Whether the output is the expected one."""
        return re.fullmatch(_pattern(_lines(self.expected)), _text(_lines(printed))) is not None

    def first_fault(self, printed: str) -> str:
        """The first expected line that the output does not hold, in words."""
        lines, text = _lines(self.expected), _text(_lines(printed))
        for count, line in enumerate(lines, 1):
            if re.match(_pattern(lines[:count]), text) is None:
                return f"$ {self.command}\nexpected, but not found: {line}\nprinted:\n{text}"
        return f"$ {self.command}\nmore was printed than expected:\n{text}"


def exchanges(markdown: str) -> list[Exchange]:
    """All exchanges of a page, in their order."""
    found: list[Exchange] = []
    for block in _BLOCK.findall(markdown):
        before, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
        if before.strip():
            raise ValueError(f"a transcript must begin with a command, not with {before.strip().splitlines()[0]!r}")
        for part in parts:
            command, _, output = part.partition("\n")
            found.append(Exchange(command, output))
    return found


def one_shell(commands: Sequence[str], folder: Path, env: Mapping[str, str]) -> list[str]:
    """What each command prints in a shell that runs them one after the other, so that a `cd` counts for those below."""
    return shell("\nprintf '\\0'\n".join(commands), folder, env, timeout=60 * len(commands)).split("\0")


def shell(command: str, folder: Path, env: Mapping[str, str], timeout: float = 60) -> str:
    """What a command prints, both kinds, as a reader of the page would see it."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout,
    )
    return done.stdout


def _lines(text: str) -> list[str]:
    return text.rstrip().split("\n") if text.strip() else []


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _pattern(lines: list[str]) -> str:
    return "".join(r"(?:.*\n)*?" if line == ANY else _line(line) for line in lines)


def _line(line: str) -> str:
    return ".*?".join(re.escape(piece) for piece in line.split(ANY)) + r"\n"
