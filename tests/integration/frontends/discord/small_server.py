"""A server that answers as little as a bot needs of Discord, in JSON as most programs send it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

ME = "900000000000000001"


@dataclass(slots=True)
class SmallServer:
    """Its routes are below `prefix`; all that it does not know is 404. The gateway sends READY, and then `events`."""

    prefix: str = ""
    events: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    limits: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Bodies of 429, each for one message that is sent."""
    sent: list[Any] = field(default_factory=list[Any])
    acknowledged: list[str] = field(default_factory=list[str])
    identified: int = 0
    url: str = ""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        app = web.Application()
        app.router.add_get(f"{self.prefix}/users/@me", self._me)
        app.router.add_get(f"{self.prefix}/gateway", self._gateway)
        app.router.add_post(f"{self.prefix}/channels/{{channel}}/messages", self._send)
        app.router.add_post(f"{self.prefix}/interactions/{{id}}/{{token}}/callback", self._acknowledge)
        app.router.add_get("/socket", self._socket)
        app.router.add_get("/notes.txt", self._file)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self.url
        finally:
            await runner.cleanup()

    async def _me(self, _: web.Request) -> web.Response:
        return web.json_response({"id": ME, "username": "helper", "discriminator": "0", "avatar": None, "bot": True})

    async def _gateway(self, _: web.Request) -> web.Response:
        return web.json_response({"url": self.url.replace("http", "ws") + "/socket"})

    async def _send(self, request: web.Request) -> web.Response:
        if self.limits:
            return web.json_response(self.limits.pop(0), status=429)
        if request.match_info["channel"] == "404":
            return web.json_response({"code": 10003, "message": "Unknown Channel"}, status=404)
        self.sent.append(await request.json())
        return web.json_response({"id": "7"})

    async def _acknowledge(self, request: web.Request) -> web.Response:
        self.acknowledged.append(request.match_info["id"])
        return web.Response(status=204)

    async def _file(self, _: web.Request) -> web.Response:
        return web.Response(body=b"some notes")

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": 40_000}})
        ready = {"user": {"id": ME, "username": "helper", "discriminator": "0", "avatar": None}, "guilds": []}
        session = {"session_id": "s", "resume_gateway_url": self.url.replace("http", "ws") + "/socket"}
        async for frame in socket:
            if frame.json()["op"] != 2:
                continue
            self.identified += 1
            for number, (event, data) in enumerate([("READY", {**ready, **session}), *self.events]):
                await socket.send_json({"op": 0, "t": event, "s": number, "d": data})
        return socket
