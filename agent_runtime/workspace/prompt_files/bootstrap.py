"""Read the files that tell an agent who it is, whom it works for and what to remember, for the system prompt."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from ...errors import ToolFailure
from ..decoding import decode_text
from ..home import Home
from ..principal_paths import OPERATOR, resolve_for_principal
from ..safe_path import SafePath
from .authorship import PromptFileAuthors

PROMPT_CAPS = {"AGENTS.md": 32_000, "SOUL.md": 4_000, "USER.md": 4_000, "MEMORY.md": 16_000}
"""Maximum characters of each file, in the order of the prompt. AGENTS.md stands for all project instructions
together."""
BOOTSTRAP_NAMES = ("SOUL.md", "USER.md", "MEMORY.md")
READ_FROM_END = frozenset({"MEMORY.md"})
"""Files that grow at their end: if one is too long, its end is shown."""
BYTES_PER_CHARACTER = 4
UNREVIEWED = (
    "({name} is left out: an agent has changed it in a conversation that held text from outside, or a skill has, and "
    "no person has looked at it since. A person who saves it, or approves a `write` of it, brings it back.)"
)
"""Replaces a file that nobody has reviewed."""
NO_TEXT = "({name} is left out: it is not UTF-8 text.)"
"""Replaces a file that is not text."""


@dataclass(frozen=True, slots=True)
class BootstrapFile:
    """A file as the prompt may show it: the text is never empty and never longer than its limit."""

    name: str
    text: str
    truncated: bool = False
    """Whether the file has more text than this."""
    is_end: bool = False
    """Whether the omitted text precedes this one."""
    source: str = "workspace"
    """The `operator`, whose files no tool can write, or the `workspace`, whose files commands can write."""
    author: str = ""
    """Whose agent made the file what it is, and when; empty: a person did."""

    def with_author(self, authors: PromptFileAuthors | None, path: Path, principal: str) -> BootstrapFile:
        """Return the file with its author, as that user may know it. The text of one that no person has reviewed is
        left out."""
        write = authors.last_write(path) if authors is not None else None
        if write is None:
            return self
        author = write.author_for(principal)
        if not write.unreviewed:
            return replace(self, author=author)
        text = UNREVIEWED.format(name=self.name)
        return replace(self, text=text, author=author, truncated=False, is_end=False)


def read_bootstrap_files(
    home: Home, principal: str = OPERATOR, authors: PromptFileAuthors | None = None
) -> tuple[BootstrapFile, ...]:
    """Return the files that exist and have text. Single undecodable bytes are replaced; for a file that is not text, a
    note is returned."""
    found: list[BootstrapFile] = []
    for name in BOOTSTRAP_NAMES:
        safe_path = resolve_for_principal(home, principal, name)
        if (file := read_prompt_file(safe_path, name, PROMPT_CAPS[name])) is not None:
            found.append(file.with_author(authors, safe_path.path, principal))
    return tuple(found)


def read_prompt_file(safe_path: SafePath, name: str, cap: int, source: str = "workspace") -> BootstrapFile | None:
    """Return a file up to its limit; None if it is missing, a link, or empty.

    Links are not followed: commands can make one here, and its target would be sent to the model.
    """
    try:
        with safe_path.open() as file:
            text, truncated = _read_end(file, cap) if name in READ_FROM_END else _read_beginning(file, cap)
    except (ToolFailure, OSError):
        return None
    except _NoText:
        return BootstrapFile(name, NO_TEXT.format(name=name), source=source)
    return BootstrapFile(name, text, truncated, name in READ_FROM_END, source) if text.strip() else None


class _NoText(Exception):
    """Raised if a file is not text."""


def _read_beginning(file: BinaryIO, cap: int) -> tuple[str, bool]:
    text = _decode(file.read((cap + 1) * BYTES_PER_CHARACTER))
    return text[:cap], len(text) > cap


def _read_end(file: BinaryIO, cap: int) -> tuple[str, bool]:
    """Return the last whole lines, and whether the file has more."""
    most = (cap + 1) * BYTES_PER_CHARACTER
    size = os.fstat(file.fileno()).st_size
    file.seek(max(0, size - most))
    text = _decode(file.read(most))
    if size <= most and len(text) <= cap:
        return text, False
    text = text[-cap:]
    return text[text.find("\n") + 1 :], True


def _decode(data: bytes) -> str:
    text = decode_text(data)
    if text is None:
        raise _NoText
    return text.replace("\r\n", "\n")
