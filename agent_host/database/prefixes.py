"""The range of keys that begin alike."""

from __future__ import annotations

_LAST_CHARACTER = 0x10FFFF
_BEFORE_SURROGATES = 0xD7FF
_AFTER_SURROGATES = 0xE000


def end_of_prefix(prefix: str) -> str | None:
    """Return the first text after all those that begin with the prefix, by code points; None: there is none."""
    trimmed = prefix.rstrip(chr(_LAST_CHARACTER))
    if not trimmed:
        return None
    code = ord(trimmed[-1])
    return trimmed[:-1] + chr(_AFTER_SURROGATES if code == _BEFORE_SURROGATES else code + 1)
