"""Messages of a server on their way into the session, over any transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types import JSONRPCRequest, JSONRPCResponse

from ..rate_limit import MessageRateLimiter

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

COMPLETE = {"resultType": "complete"}
"""What a result without a type is, by the protocol."""
NOT_CACHED = {"ttlMs": 0, "cacheScope": "private"}
"""What a listing says of caches when it says nothing."""


def accept_message(message: JSONRPCMessage | Any, limiter: MessageRateLimiter) -> None:
    """Count a request of the server's, and give a result the fields that it left out. Raises Overrun."""
    if isinstance(message, JSONRPCRequest):
        limiter.count_request()
    elif isinstance(message, JSONRPCResponse):
        defaults = {**COMPLETE, **(NOT_CACHED if "tools" in message.result else {})}
        message.result = {**defaults, **message.result}
