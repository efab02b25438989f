"""Bytes that anybody may have written, as text."""

from __future__ import annotations

FEW, SHARE = 10, 20
"""So many places of a text may be broken, or one in so many characters: it is read all the same."""
_MARK = "\N{REPLACEMENT CHARACTER}"


def decode_text(data: bytes) -> str | None:
    """What stands in the bytes, with a mark for what is no UTF-8; none where they are no text: another encoding, a
    picture, noise."""
    if b"\0" in data:
        return None
    text = data.decode("utf-8-sig", errors="replace")
    broken = text.count(_MARK) - data.count(_MARK.encode())
    return text if broken <= max(FEW, len(text) // SHARE) else None
