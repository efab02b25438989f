"""Recognise a server that speaks only the transport of 2024, HTTP with SSE, so that its refusal can be explained.

Imported only when a remote server is used, because it needs packages that load slowly.
"""

from __future__ import annotations

import anyio
import httpx2

from ..config.config import RemoteServer
from ..rate_limit import LimitExceeded
from .answer_bodies import EVENT_STREAM
from .http_transport import http_client
from .routes import Route

PROBE_SECONDS = 5.0
PROBE_BYTES = 4096
"""The first event comes in the first bytes."""
OLDER_TRANSPORT = (
    "it speaks HTTP with SSE, the transport of 2024-11-05, which is not spoken here; set url to its streamable HTTP, "
    "which most such servers have too, often at /mcp in place of /sse, or run it here with command"
)


async def speaks_older_transport(server: RemoteServer, route: Route) -> bool:
    """Return whether a GET of the server's address opens a stream whose first event names an endpoint for messages."""
    headers = {**server.headers, "accept": EVENT_STREAM}
    try:
        with anyio.fail_after(PROBE_SECONDS):
            async with http_client(route, headers=headers) as client, client.stream("GET", server.url) as answer:
                if not answer.is_success or answer.headers.get("content-type") != EVENT_STREAM:
                    return False
                return await _first_event(answer) == "endpoint"
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, LimitExceeded, TimeoutError):
        return False


async def _first_event(answer: httpx2.Response) -> str:
    """Return the name of the first event that is no ping."""
    text = ""
    async for piece in answer.aiter_text():
        text += piece
        whole = text.removeprefix("\ufeff").replace("\r", "\n").split("\n")[:-1]
        named = [line.removeprefix("event:").strip() for line in whole if line.startswith("event:")]
        if found := [name for name in named if name != "ping"]:
            return found[0]
        if len(text) > PROBE_BYTES:
            break
    return ""
