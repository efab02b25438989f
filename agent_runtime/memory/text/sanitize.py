"""Texts on their way into memory: nothing hidden, no secrets, no longer than allowed, known when they come again."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

from agent_common.line_text import visible
from agent_common.redaction import redacted

CUT = " [...]"
_END = re.compile(r"[\s.!\u3002\u0964]+$")


def clean(text: str, secrets: Sequence[str] = ()) -> str:
    """The text without secrets and with escapes in the place of what does not show; lines stay lines."""
    lines = (visible(" ".join(line.split())) for line in redacted(text, secrets).splitlines())
    return "\n".join(line for line in lines if line)


def cut(text: str, longest: int) -> str:
    """At most so many characters."""
    return text if len(text) <= longest else text[: longest - len(CUT)].rstrip() + CUT


def digest(text: str) -> bytes:
    """The same for texts that differ in case, spaces, width or their last full stop only."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return hashlib.sha256((_END.sub("", plain) or plain).encode()).digest()[:16]
