"""Encrypted reasoning: only what this double has given with an item can be read again."""

from __future__ import annotations

import base64
import hashlib
import hmac

_SECRET = b"the double of OpenAI's Responses API"


def encrypt(item_id: str, size: int = 0) -> str:
    """Return the encrypted content of an item. `size`: characters of the reasoning behind it."""
    return "gAAAA" + base64.urlsafe_b64encode(_digest(item_id) + b"\0" * (size // 2)).decode()


def is_encrypted(item_id: str, content: str) -> bool:
    """Whether the content was given with that item."""
    try:
        raw = base64.b64decode(content.removeprefix("gAAAA"), b"-_", validate=True)
    except ValueError:
        return False
    return content.startswith("gAAAA") and hmac.compare_digest(raw[:32], _digest(item_id))


def _digest(item_id: str) -> bytes:
    return hmac.digest(_SECRET, item_id.encode(), hashlib.sha256)
