"""What was typed while the chat opened: the terminal still read lines then, and made a line feed of Enter."""

from __future__ import annotations

import os
from collections.abc import Sequence
from select import select

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress


def typed_ahead(terminal: int) -> Sequence[KeyPress]:
    """Return the keys of the lines that a terminal has ready, with Enter as Enter; none of what is no terminal."""
    keys: list[KeyPress] = []
    parser = Vt100Parser(keys.append)
    while os.isatty(terminal) and select([terminal], [], [], 0)[0] and (data := os.read(terminal, 4096)):
        parser.feed(data.decode(errors="replace").replace("\n", "\r"))
    return keys
