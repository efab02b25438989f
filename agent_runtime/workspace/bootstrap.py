"""The files that tell an agent who it is, read for the system prompt."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ToolFailure
from .home import Home
from .place import Place

CAPS = {"AGENTS.md": 12_000, "SOUL.md": 4_000, "USER.md": 4_000, "MEMORY.md": 16_000}
"""In the order of the prompt; characters of each."""
TOTAL_CAP = 48_000
BYTES_PER_CHARACTER = 4


@dataclass(frozen=True, slots=True)
class BootstrapFile:
    name: str
    text: str
    """Never empty. When it was cut, the last line says so."""
    truncated: bool


def bootstrap(home: Home) -> tuple[BootstrapFile, ...]:
    """The files that are there and say something. What cannot be decoded is replaced, what is too long is cut."""
    found: list[BootstrapFile] = []
    left = TOTAL_CAP
    for name, own_cap in CAPS.items():
        cap = min(own_cap, left)
        text = _beginning(home, name, cap + 1)
        left -= min(len(text), cap)
        if len(text) > cap:
            text = f"{text[:cap].rstrip()}\n[{name} is cut here: only its first {cap} characters are shown]"
            found.append(BootstrapFile(name, text, truncated=True))
        elif text.strip():
            found.append(BootstrapFile(name, text, truncated=False))
    return tuple(found)


def _beginning(home: Home, name: str, characters: int) -> str:
    """The first characters of a file in the workspace; empty when there is no such file, or only a link to one.

    A link is not followed: commands can write here, and what it points to would go to the model.
    """
    try:
        with Place(home.workspace, home.workspace / name, name).open() as file:
            data = file.read(characters * BYTES_PER_CHARACTER)
    except ToolFailure:
        return ""
    return data.decode("utf-8-sig", errors="replace")[:characters]
