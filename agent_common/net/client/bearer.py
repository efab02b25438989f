"""Credentials for an `Authorization: Bearer` header."""

from __future__ import annotations

import re

_VISIBLE = re.compile(r"[\x21-\x7e]+")


def checked_bearer(credential: str) -> str:
    """Return the credential without surrounding white space. Raises ValueError, which does not quote it, if a header
    cannot hold it.

    Checked here because a client that fails to send the header may quote it in its error.
    """
    stripped = credential.strip()
    if not _VISIBLE.fullmatch(stripped):
        raise ValueError("must be printable ASCII characters without white space inside")
    return stripped
