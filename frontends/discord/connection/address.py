"""Where Discord's API is: at Discord, or below an address of the operator's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from discord import HTTPException, LoginFailure, NotFound
from discord.gateway import DiscordWebSocket
from discord.http import HTTPClient, Route
from yarl import URL

from ...platform import TemporarilyUnavailable
from .answers import Waits, content_of, with_code


def api_roots(base_url: str | None) -> list[str]:
    """Return the addresses below which the routes may be, the likeliest first. `http://127.0.0.1:8700` means its
    `/api/v10` as at Discord, or else the address itself; one that has `/api` in its path is complete, or lacks the
    version."""
    if base_url is None:
        return [Route.BASE]
    root = base_url.rstrip("/")
    path = urlsplit(root).path
    if path.endswith("/api"):
        return [root, f"{root}/v10"]
    return [root] if "/api" in path else [f"{root}/api/v10", root]


class Wire:
    """Leads a client of discord.py to an API and to the gateway that this API names. The library itself has one address
    for all clients of a process."""

    def __init__(self, http: HTTPClient, base_url: str | None, *, longest_wait: float) -> None:
        self._http = http
        self._roots = api_roots(base_url)
        self._middlewares = [Waits(longest_wait)]
        self._request = http.request
        self._connect = http.ws_connect
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        http.request = self._request_there
        http.ws_connect = self._connect_there

    async def close_gateway(self) -> None:
        """Close the connection with the gateway, also one that is being made."""
        if self._socket is not None:
            await self._socket.close(code=1000)

    async def _request_there(self, route: Route, **options: Any) -> Any:
        path = route.url.removeprefix(Route.BASE)
        while len(self._roots) > 1:
            try:
                answer = await self._call(route, self._roots[0] + path, options)
            except NotFound:
                del self._roots[0]
            else:
                del self._roots[1:]
                return answer
        return await self._call(route, self._roots[0] + path, options)

    async def _call(self, route: Route, url: str, options: Mapping[str, Any]) -> Any:
        route.url = url
        try:
            return content_of(await self._request(route, middlewares=self._middlewares, **options))
        except HTTPException as error:
            raise with_code(error)  # noqa: B904 - the same one

    async def _connect_there(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        address = URL(url)
        if address.host == DiscordWebSocket.DEFAULT_GATEWAY.host:
            address = URL(await self._gateway()).with_query(address.query)
        self._socket = await self._connect(str(address), compress=compress)
        return self._socket

    async def _gateway(self) -> str:
        """Ask the API for the gateway. Discord revokes the token of a bot that begins more sessions than it may."""
        try:
            answer = await self._http.request(Route("GET", "/gateway/bot"))
        except NotFound:
            answer = await self._http.request(Route("GET", "/gateway"))
        except HTTPException as error:
            if error.status == 401:
                raise LoginFailure from error
            raise
        sessions = answer.get("session_start_limit")
        if sessions and sessions["remaining"] <= 0:
            seconds = sessions["reset_after"] / 1000
            raise TemporarilyUnavailable(
                f"Discord lets this bot begin no more sessions for {seconds:.0f} s", retry_after=seconds, refused=True
            )
        return answer["url"]
