"""Connections by which the host reaches this agent's HTTP API. The agent opens them, when the host asks for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from agent_common.net import Endpoint, connect
from agent_common.protocol.work import ApiOpened, encode

MAX_CONNECTIONS = 64
"""Maximum connections at the same time, those that are being opened included."""
DIAL_SECONDS = 10.0
ServeConnection = Callable[[asyncio.Transport], None]
"""Has the HTTP server answer the requests that come on a connection."""


class ApiConnections:
    """The connections of one attachment. They end with it."""

    def __init__(self, endpoint: Endpoint, serve: ServeConnection) -> None:
        self._endpoint = endpoint
        self._serve = serve
        self._opening = 0
        self._open: list[asyncio.Transport] = []

    @property
    def full(self) -> bool:
        self._open = [transport for transport in self._open if not transport.is_closing()]
        return self._opening + len(self._open) >= MAX_CONNECTIONS

    async def open(self, frame: ApiOpened) -> None:
        """Dial the host, name the connection, and have the HTTP server answer its requests. Raises OSError."""
        self._opening += 1
        try:
            opened, _ = await connect(asyncio.Protocol, self._endpoint, DIAL_SECONDS)
        finally:
            self._opening -= 1
        transport = cast(asyncio.Transport, opened)
        transport.write(encode(frame))
        self._serve(transport)
        self._open.append(transport)

    def close(self) -> None:
        """Cut all connections."""
        for transport in self._open:
            transport.abort()
