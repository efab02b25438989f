"""Text of any origin on its way to a person's terminal, which obeys what is written to it.

What agents, models and tools say is not trusted: characters that drive a terminal or do not show become escapes.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, TextIO
from unicodedata import category

from .line_text import HIDDEN, JOINERS, escape

_SUSPECT = re.compile("[^\x20-\x7e\n\t]")


def safe_text(text: str) -> str:
    """Return the text with escapes like `\\x1b` in the place of characters that drive a terminal or do not show. Line
    ends and tabs stay."""
    shown = _SUSPECT.sub(lambda found: _shown(found[0]), text.replace("\r\n", "\n"))
    return HIDDEN.sub(lambda found: escape(found[0]), shown)


def safe_line(text: str) -> str:
    """Return the same as one line."""
    return safe_text(text).replace("\n", "\\n").replace("\t", " ")


def safe_json(value: Any, indent: int | None = None) -> str:
    """Return the value as JSON that is safe to show: characters that do not show are escapes of JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    shown = _SUSPECT.sub(lambda found: found[0] if _shown(found[0]) == found[0] else json.dumps(found[0])[1:-1], text)
    return HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], shown)


def write_text(text: str, stream: TextIO | None = None) -> None:
    """Write to stdout or the stream at once, so that a reader which has gone is noticed here. What the encoding lacks
    is escaped."""
    out = stream or sys.stdout
    encoding = out.encoding or "utf-8"
    out.write(text.encode(encoding, "backslashreplace").decode(encoding))
    out.flush()


def _shown(char: str) -> str:
    return char if char.isprintable() or char in JOINERS or category(char) == "Zs" else escape(char)
