"""The files that tell an agent who it is, for whom it works and what to remember, read for the system prompt."""

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
"""In the order of the prompt; characters of each. That of AGENTS.md is for all project instructions together."""
BOOTSTRAP_NAMES = ("SOUL.md", "USER.md", "MEMORY.md")
READ_FROM_END = frozenset({"MEMORY.md"})
"""Files that grow at their end: of one that is too long the end is told."""
BYTES_PER_CHARACTER = 4
NO_TEXT = "({name} is left out: it is not UTF-8 text.)"
"""Stands in the place of a file that is something else."""


@dataclass(frozen=True, slots=True)
class BootstrapFile:
    """What the prompt may show of a file. The text is never empty and never longer than its cap."""

    name: str
    text: str
    truncated: bool = False
    """There is more of it than this."""
    is_end: bool = False
    """When there is more, it stands before this."""
    source: str = "workspace"
    """Whose it is: the `operator`'s, where no tool can write, or the `workspace`'s, where commands can."""


def read_bootstrap_files(home: Home, principal: str = OPERATOR) -> tuple[BootstrapFile, ...]:
    """Who the agent is, who the principal is, and what to remember: the files that are there and say something. A
    few bytes that cannot be decoded are replaced; of what is no text only that is told."""
    files = (
        read_prompt_file(resolve_for_principal(home, principal, name), name, PROMPT_CAPS[name])
        for name in BOOTSTRAP_NAMES
    )
    return tuple(file for file in files if file is not None)


def read_prompt_file(safe_path: SafePath, name: str, cap: int, source: str = "workspace") -> BootstrapFile | None:
    """As much of a file as its cap allows; none when there is no such file, only a link to one, or nothing in it.

    A link is not followed: commands can write here, and what it points to would go to the model.
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
    """What lies there is something else."""


def _read_beginning(file: BinaryIO, cap: int) -> tuple[str, bool]:
    text = _decode(file.read((cap + 1) * BYTES_PER_CHARACTER))
    return text[:cap], len(text) > cap


def _read_end(file: BinaryIO, cap: int) -> tuple[str, bool]:
    """The last whole lines."""
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
