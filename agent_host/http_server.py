"""The server of the host's HTTP API, and when it stops."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import uvicorn

from agent_common.http import (
    end_if_stalled,
    limited_http_protocol,
    limited_web_socket_protocol,
    tune_interpreter,
)
from agent_common.net import ListeningSocket
from agent_common.protocol.hub import MAX_FRAME

from .listening_sockets import HttpSide, ListeningSockets
from .settings import HostSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

_STREAM_GRACE_SECONDS = 5
"""Time for answers that are in progress when the host stops."""


class HttpServer(uvicorn.Server):
    """A server that owns its listening sockets. It stops the runtimes while it still serves, because their last steps
    need the model proxy."""

    def __init__(
        self, app: FastAPI, settings: HostSettings, sockets: Sequence[ListeningSocket], connections: int
    ) -> None:
        http = limited_http_protocol(connections)
        super().__init__(
            uvicorn.Config(
                app,
                loop="uvloop",
                http=http,
                ws=limited_web_socket_protocol(http.limit),
                ws_max_size=MAX_FRAME,
                ws_ping_interval=settings.hub_heartbeat,
                ws_ping_timeout=settings.hub_heartbeat,
                ws_per_message_deflate=False,  # a few bytes of it become megabytes
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=round(min(settings.stop_grace, _STREAM_GRACE_SECONDS)),
            )
        )
        self._state = app.state
        self._state.connections = http.limit
        self._state.http_sockets = self._listening = ListeningSockets(HttpSide(self._connection))
        self._sockets = sockets
        self._stall_timeout = settings.stall_timeout

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        end_if_stalled("agent-host", self._stall_timeout)
        await super().startup(sockets)
        for one in self._sockets:
            await self._listening.add(one)
        tune_interpreter()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await self._state.end_work()
        finally:
            self._listening.stop_listening()
            await super().shutdown(sockets)

    def _connection(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
