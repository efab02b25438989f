"""One request of a callback: its body, its headers and its signature (docs/reference/results.md#callbacks)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from ..records import Result

DELIVERY_HEADER, SIGNATURE_HEADER = "X-Agent-Delivery", "X-Agent-Signature"


def callback_body(result: Result) -> bytes:
    """Return the body: the row of the result, the same bytes for every attempt."""
    return result.model_dump_json(exclude={"delivery"}).encode()


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
