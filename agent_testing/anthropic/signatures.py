"""Signatures of thinking: only text that this double has given bears a valid one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools

_SECRET = b"the double of Anthropic's Messages API"
_numbers = itertools.count(1)


def sign(thinking: str) -> str:
    """Return a signature. The same text gets another one each time, as the real ones are."""
    nonce = next(_numbers).to_bytes(8, "big")
    return base64.b64encode(nonce + _digest(nonce, thinking)).decode()


def is_signed(thinking: str, signature: str) -> bool:
    """Whether the signature belongs to the text."""
    try:
        raw = base64.b64decode(signature, validate=True)
    except ValueError:
        return False
    return hmac.compare_digest(raw[8:], _digest(raw[:8], thinking))


def seal() -> str:
    """Return the data of a redacted thinking block."""
    return sign("redacted")


def is_sealed(data: str) -> bool:
    return is_signed("redacted", data)


def _digest(nonce: bytes, thinking: str) -> bytes:
    return hmac.digest(_SECRET + nonce, thinking.encode("utf-8", "surrogatepass"), hashlib.sha256)
