"""The prompt of `agent -p`: what the option says, and what is piped in."""

from __future__ import annotations

import stat
import sys
from os import fstat

from ..errors import CliError, UsageError

MAX_INPUT_CHARACTERS = 1_000_000
"""Of stdin; the server has its own limit for messages."""


def whole_message(text: str) -> str:
    """Return the text with what is piped in below it; `-` is only that. Raises CliError."""
    piped = _read_piped() if text == "-" or _is_piped() else ""
    message = piped.strip("\n") if text == "-" else "\n\n".join(filter(None, (text, piped.strip("\n"))))
    if not message.strip():
        raise UsageError("the prompt is empty", 'write it as -p "TEXT", or pipe it in and write -p -')
    return message


def _is_piped() -> bool:
    """Whether stdin is a pipe or a file: not a terminal, and not the empty input of a service."""
    try:
        mode = fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _read_piped() -> str:
    data = sys.stdin.buffer.read(MAX_INPUT_CHARACTERS * 4 + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CliError(f"stdin is not text in UTF-8, at byte {error.start}") from error
    if len(text) > MAX_INPUT_CHARACTERS:
        raise CliError(f"stdin has more than {MAX_INPUT_CHARACTERS} characters", "put it into a file of the workspace")
    return text
