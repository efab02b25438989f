"""Credentials as an `Authorization: Bearer` header carries them."""

from __future__ import annotations

import re

_VISIBLE = re.compile(r"[\x21-\x7e]+")


def checked_bearer(credential: str) -> str:
    """The credential without the blanks around it. Raises ValueError, which does not quote it, when no header takes it.

    A client that finds out only when it sends the header may name the whole header in its error.
    """
    stripped = credential.strip()
    if not _VISIBLE.fullmatch(stripped):
        raise ValueError("must be letters, digits and signs of ASCII without a blank or a line break inside")
    return stripped
