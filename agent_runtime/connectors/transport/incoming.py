"""Check and complete messages from a server before the session reads them, for all transports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types import JSONRPCRequest, JSONRPCResponse

from ..rate_limit import MessageRateLimiter

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

COMPLETE = {"resultType": "complete"}
"""The type that the protocol gives to a result without one."""
NOT_CACHED = {"ttlMs": 0, "cacheScope": "private"}
"""The defaults for the caching fields of a listing."""


def accept_message(message: JSONRPCMessage | Any, limiter: MessageRateLimiter) -> None:
    """Count a request from the server, or add default fields to a result. Raises LimitExceeded."""
    if isinstance(message, JSONRPCRequest):
        limiter.count_request()
    elif isinstance(message, JSONRPCResponse):
        defaults = {**COMPLETE, **(NOT_CACHED if "tools" in message.result else {})}
        message.result = {**defaults, **message.result}
