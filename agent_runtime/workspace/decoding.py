"""Decode bytes of unknown origin as text."""

from __future__ import annotations

FEW = 10
SHARE = 20
"""A text may have this many undecodable places, or one per this many characters."""
_MARK = "\N{REPLACEMENT CHARACTER}"


def decode_text(data: bytes) -> str | None:
    """Return the bytes as text, with U+FFFD for invalid UTF-8. None if they are not text but another encoding, an image
    or other binary data."""
    if b"\0" in data:
        return None
    text = data.decode("utf-8-sig", errors="replace")
    broken = text.count(_MARK) - data.count(_MARK.encode())
    return text if broken <= max(FEW, len(text) // SHARE) else None
