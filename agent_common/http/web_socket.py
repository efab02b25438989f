"""WebSockets that cannot be kept for nothing: they count as connections, and one whose other end is gone is broken off.

uvicorn would close it in order: it waits until the other end has read what was sent, for as long as the kernel tries.
"""

from __future__ import annotations

from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from ..net import ConnectionLimit
from .header_limits import CONNECTION_KEY

MOST_UNSENT = 4 << 20
"""Bytes that a client may leave unread and still be answered a ping."""


def limited_web_socket_protocol(limit: ConnectionLimit) -> type[BoundedWebSocket]:
    """WebSockets of a server whose connections are counted by this limit."""
    return type("Socket", (BoundedWebSocket,), {"limit": limit})


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One WebSocket."""

    limit = ConnectionLimit(1 << 16)

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, {**app_state, CONNECTION_KEY: self})

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.limit.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.limit.remove(self)
        super().connection_lost(exc)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # refused with an answer, which uvicorn would log as a fault of the app

    def handle_ping(self) -> None:
        if self.transport.get_write_buffer_size() > MOST_UNSENT:
            self.transport.abort()
            return
        super().handle_ping()

    def keepalive_timeout(self) -> None:
        self.transport.abort()
