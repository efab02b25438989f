"""Texts on their way into memory: nothing hidden, no secrets, no longer than allowed, known when they come again."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from agent_common.line_text import escape_invisible
from agent_common.redaction import Redactor

CUT_MARK = " [...]"
_END = re.compile(r"[\s.!\u3002\u0964]+$")


def clean(text: str, redactor: Redactor) -> str:
    """The text without secrets and with escapes in the place of what does not show; lines stay lines."""
    lines = (escape_invisible(" ".join(line.split())) for line in redactor.redact_note(text).splitlines())
    return "\n".join(line for line in lines if line)


def truncate(text: str, max_length: int) -> str:
    """At most so many characters."""
    return text if len(text) <= max_length else text[: max_length - len(CUT_MARK)].rstrip() + CUT_MARK


def digest(text: str) -> bytes:
    """The same for texts that differ in case, spaces, width or their last full stop only."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return hashlib.sha256((_END.sub("", plain) or plain).encode()).digest()[:16]
