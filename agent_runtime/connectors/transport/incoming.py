"""Count the requests of a server before the session reads them, for all transports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types import JSONRPCRequest

from ..rate_limit import MessageRateLimiter

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage


def count_requests(message: JSONRPCMessage | Any, limiter: MessageRateLimiter) -> None:
    """Count a request from the server. A ping is answered, and only its bytes count. Raises LimitExceeded."""
    if isinstance(message, JSONRPCRequest) and message.method != "ping":
        limiter.count_request()
