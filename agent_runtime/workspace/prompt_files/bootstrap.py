"""Read the files that tell an agent who it is, whom it works for and what to remember, for the system prompt."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO

from ...errors import ToolFailure
from ..decoding import decode_text
from ..home import Home
from ..principal_paths import OPERATOR, resolve_for_principal
from ..safe_path import SafePath

PROMPT_CAPS = {"AGENTS.md": 32_000, "SOUL.md": 4_000, "USER.md": 4_000, "MEMORY.md": 16_000}
"""Maximum characters of each file, in the order of the prompt. AGENTS.md stands for all project instructions
together."""
BOOTSTRAP_NAMES = ("SOUL.md", "USER.md", "MEMORY.md")
READ_FROM_END = frozenset({"MEMORY.md"})
"""Files that grow at their end: if one is too long, its end is shown."""
BYTES_PER_CHARACTER = 4
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


def read_bootstrap_files(home: Home, principal: str = OPERATOR) -> tuple[BootstrapFile, ...]:
    """Return the files that exist and have text. Single undecodable bytes are replaced; for a file that is not text, a
    note is returned."""
    files = (
        read_prompt_file(resolve_for_principal(home, principal, name), name, PROMPT_CAPS[name])
        for name in BOOTSTRAP_NAMES
    )
    return tuple(file for file in files if file is not None)


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
