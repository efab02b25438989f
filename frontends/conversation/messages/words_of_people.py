"""A person's message as the model reads it: who wrote it, what, and with which files. No name and no text can forge the
lines that the bot adds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...platform import PlatformName, Sender
from ..replies import HINT
from ..words import one_line

NAME_CHARACTERS = 40
_ADDED = re.compile(
    r"^((?:[^\S\n]|[\u200b-\u200f\u2060-\u2064\ufeff])*+)[\[\uff3b](?=\s*(?:from|file|to send)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_BREAKS = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What counts as the end of a line anywhere."""
_NOT_IN_NAMES = re.compile(r"[^\w .'-]")
_HINT_LINE = f"[{HINT}]"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that a person sent, in the workspace."""

    path: str
    media_type: str
    size: int

    def line(self) -> str:
        return f"[file {self.path}: {self.media_type}, {self.size} bytes]"


def shown_name(sender: Sender) -> str:
    """Return the name of a sender as one line without marks."""
    return one_line(_NOT_IN_NAMES.sub("", one_line(sender.name, 200)), NAME_CHARACTERS).strip() or "unnamed"


def message_of(
    text: str,
    sender: Sender,
    platform: PlatformName,
    *,
    private: bool,
    files: Sequence[str] = (),
    first: bool = False,
) -> str:
    """Return the message for the model. `files` are the lines about files, `first` asks for the hint that begins a
    session."""
    who = [] if private else [f'[from "{shown_name(sender)}" ({platform}:{sender.id})]']
    below = [*files, *([_HINT_LINE] if first else [])]
    return _joined(who, text, below)


def edited(message: str, text: str) -> str:
    """Return a message for the model with another text of the person in it."""
    lines = message.splitlines()
    who = [line for line in lines[:1] if line.startswith("[from ")]
    below = [line for line in lines if line.startswith("[file ") or line == _HINT_LINE]
    return _joined(who, text, below)


def _joined(who: Sequence[str], text: str, below: Sequence[str]) -> str:
    """Return the lines of the bot around a text, in which no line looks like one of them."""
    body = _ADDED.sub(r"\1(", _BREAKS.sub("\n", text).strip())
    return "\n\n".join(filter(None, ("\n".join((*who, body)).strip(), "\n".join(below))))
