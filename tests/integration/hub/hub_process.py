"""A hub as a process of its own: `python hub_process.py DATABASE_URL PORT`. Anybody is let in."""

from __future__ import annotations

import asyncio
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from agent_common.backoff import Backoff
from agent_host.hub import Hub, HubLimits, LinkRights, SocketLink


async def serve(url: str, port: int) -> None:
    hub = await Hub.open(url, limits=HubLimits(lease_seconds=5.0, retry=Backoff(0.05, 0.5)))

    async def link(socket: WebSocket) -> None:
        await socket.accept()
        await SocketLink(hub, socket, LinkRights()).run()

    app = Starlette(routes=[WebSocketRoute("/hub", link)])
    server = uvicorn.Server(
        uvicorn.Config(app, port=port, lifespan="off", log_level="warning", timeout_graceful_shutdown=1)
    )
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print("the hub listens", flush=True)
    await serving
    await hub.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
