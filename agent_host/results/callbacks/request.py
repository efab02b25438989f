"""One request of a callback: its headers and its signature (docs/reference/results.md#callbacks)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

DELIVERY_HEADER = "X-Agent-Delivery"
SIGNATURE_HEADER = "X-Agent-Signature"


def callback_headers(delivery: str, body: bytes, secret: str) -> Mapping[str, str]:
    return {
        "content-type": "application/json",
        "user-agent": "agent-host",
        DELIVERY_HEADER: delivery,
        SIGNATURE_HEADER: sign(body, secret),
    }


def sign(body: bytes, secret: str) -> str:
    """Return the value of the signature's header: the HMAC-SHA256 of the raw body."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
