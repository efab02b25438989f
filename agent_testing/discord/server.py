"""The HTTP server of the double: REST and gateway on one loopback port. The only part that needs aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from .gateway import GatewayConnection
from .limits import Limiter
from .rest.api import RestApi
from .world.state import World

_MOST_FILES = 12


class DiscordServer:
    """Serves a world. Use it within one event loop."""

    def __init__(
        self,
        world: World,
        limiter: Limiter,
        *,
        heartbeat_seconds: float,
        interaction_seconds: float,
        upload_bytes: int,
    ) -> None:
        self.rest = RestApi(world, limiter, upload_bytes=upload_bytes, interaction_seconds=interaction_seconds)
        self._world = world
        self._limiter = limiter
        self._heartbeat_seconds = heartbeat_seconds
        self._connections: set[GatewayConnection] = set()
        app = web.Application(client_max_size=_MOST_FILES * upload_bytes)
        app.router.add_get("/", self._gateway)
        self.rest.add_to(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    async def start(self, port: int) -> str:
        """Listen, and return the base URL."""
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        host, bound = self._runner.addresses[0][:2]
        loop = asyncio.get_running_loop()
        world = self._world
        world.base_url = f"http://{host}:{bound}"
        world.gateway_url = f"ws://{host}:{bound}/"
        world.later = lambda seconds, call: loop.call_soon_threadsafe(loop.call_later, seconds, call)  # pyright: ignore[reportAttributeAccessIssue]
        world.faults.released = lambda: loop.call_soon_threadsafe(self.rest.release)  # pyright: ignore[reportAttributeAccessIssue]
        return world.base_url

    async def stop(self) -> None:
        self._world.later = lambda _seconds, _call: None
        self._world.faults.released = lambda: None
        self.rest.release()
        for connection in list(self._connections):
            connection.cut()
        await self._runner.cleanup()

    async def _gateway(self, request: web.Request) -> web.StreamResponse:
        failed = await self.rest.failure(request, "CONNECT gateway", at_random=False)
        if failed is not None:
            return failed
        connection = GatewayConnection(self._world, self._limiter, heartbeat_seconds=self._heartbeat_seconds)
        self._connections.add(connection)
        try:
            return await connection.run(request)
        finally:
            self._connections.discard(connection)

    async def each_connection(self, act: Callable[[GatewayConnection], Awaitable[None] | None]) -> int:
        """Do something to all connections of the gateway; return how many there were."""
        connections = list(self._connections)
        for connection in connections:
            done = act(connection)
            if done is not None:
                await done
        return len(connections)
