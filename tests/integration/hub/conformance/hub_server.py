"""A hub that lets in who has the token `token-of-NAME`, in this process or as `python hub_server.py DATABASE_URL`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import WebSocketRoute
from starlette.types import Receive
from starlette.websockets import WebSocket

from agent_common.backoff import Backoff
from agent_common.http import limited_web_socket_protocol
from agent_common.net import ConnectionLimit
from agent_common.protocol.hub import MAX_FRAME
from agent_host.hub import Hub, HubConnection, HubLimits, LinkRights, SocketLink

NAMES = ("alice", "bob", "carol")
TOKENS = {name: f"token-of-{name}" for name in NAMES}


class HubServer:
    """Serves links of a hub. A faulty one changes a part."""

    max_frame = MAX_FRAME
    kind = HubConnection
    """What answers the frames of a link."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.links: set[asyncio.Task[Any]] = set()
        """Those that are open."""

    def connect(self, send: Any, rights: LinkRights | None = None, flow: Any = None) -> HubConnection:
        return self.kind(self.hub, send, rights or LinkRights(), flow)

    def identify(self, token: str) -> str | None:
        """Return whose token it is; None: nobody's."""
        return next((name for name, known in TOKENS.items() if token == f"Bearer {known}"), None)

    def rights(self, name: str) -> LinkRights:
        return LinkRights(name)

    def receiving(self, receive: Receive) -> Receive:
        """Return how the messages of a socket come."""
        return receive

    async def __call__(self, scope: Any, receive: Receive, send: Any) -> None:
        app = Starlette(routes=[WebSocketRoute("/hub", self._serve)])
        await app(scope, self.receiving(receive), send)

    async def _serve(self, socket: WebSocket) -> None:
        name = self.identify(socket.headers.get("authorization", ""))
        if name is None:
            await socket.send_denial_response(PlainTextResponse("who are you?", 401))
            return
        await socket.accept()
        task = asyncio.ensure_future(SocketLink(self, socket, self.rights(name)).run())
        self.links.add(task)
        try:
            await asyncio.wait([task])
        finally:
            self.links.discard(task)
            task.cancel()

    def end_all_links(self) -> None:
        for task in self.links:
            task.cancel()


@asynccontextmanager
async def serving(kind: type[HubServer] = HubServer, database: str = "memory://") -> AsyncGenerator[str]:
    """Serve a new hub within the block. Yields its URL."""
    hub = await Hub.open(database, limits=HubLimits(retry=Backoff(0.05, 0.5)))
    server = kind(hub)
    config = uvicorn.Config(
        server,
        port=0,
        lifespan="off",
        log_level="error",
        timeout_graceful_shutdown=1,
        ws=limited_web_socket_protocol(ConnectionLimit(1000)),
        ws_max_size=server.max_frame,
    )
    with config.bind_socket() as bound:
        running = uvicorn.Server(config)
        task = asyncio.create_task(running.serve([bound]))
        while not running.started:
            await asyncio.sleep(0.01)
        try:
            yield f"ws://127.0.0.1:{bound.getsockname()[1]}/hub"
        finally:
            running.should_exit = True
            await task
            await hub.close()


async def main(database: str) -> None:
    async with serving(database=database) as url:
        print(f"the hub listens on {url}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
