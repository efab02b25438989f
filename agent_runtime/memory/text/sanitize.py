"""Clean, truncate and fingerprint the texts that memory stores."""

from __future__ import annotations

import hashlib
import unicodedata

from agent_common.line_text import escape_invisible
from agent_common.redaction import Redactor

CUT_MARK = " [...]"
_END = " .!\u3002\u0964"


def clean(text: str, redactor: Redactor) -> str:
    """Return the text without secrets and blank lines, and with invisible characters escaped."""
    lines = (escape_invisible(" ".join(line.split())) for line in redactor.redact_note(text).splitlines())
    return "\n".join(line for line in lines if line)


def truncate(text: str, max_length: int) -> str:
    """Return the text, cut and marked as cut if it is longer than `max_length`."""
    return text if len(text) <= max_length else text[: max_length - len(CUT_MARK)].rstrip() + CUT_MARK


def digest(text: str) -> bytes:
    """Return a digest that ignores case, spaces, character width and a final full stop."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return hashlib.sha256((plain.rstrip(_END) or plain).encode()).digest()[:16]
