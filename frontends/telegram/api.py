"""The library's client of the Bot API, with what it lacks: updates as they come, and files in chunks."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from http import HTTPStatus
from typing import Any, cast

import httpx
from telegram import Bot
from telegram.error import BadRequest, NetworkError, TelegramError, TimedOut
from telegram.request import HTTPXRequest

from agent_common.net import public_tls

DEFAULT_ROOT = "https://api.telegram.org"
_CONNECTIONS = 16
_POOL_SECONDS = 20.0
"""The longest wait for one of them."""
_CHUNK_BYTES = 64 * 1024


def silence_library_logs() -> None:
    """Write nothing of what the libraries log: every URL has the token in it, and answers have what people wrote."""
    for library in ("telegram", "httpx", "httpcore"):
        logging.getLogger(library).setLevel(logging.CRITICAL)


def api_urls(base_url: str | None) -> tuple[str, str]:
    """Return the addresses of methods and of files, to which the token is added. `base_url` is the root of the API; an
    address that ends with `/bot`, as the library wants it, is taken too."""
    root = (base_url or DEFAULT_ROOT).rstrip("/").removesuffix("/bot")
    return f"{root}/bot", f"{root}/file/bot"


class Request(HTTPXRequest):
    """Connections to the Bot API."""

    def __init__(self, connections: int = _CONNECTIONS, pool_seconds: float = _POOL_SECONDS) -> None:
        super().__init__(
            connection_pool_size=connections,
            connect_timeout=10,
            read_timeout=20,
            write_timeout=20,
            pool_timeout=pool_seconds,
            media_write_timeout=120,
            httpx_kwargs={"verify": public_tls()},
        )

    async def do_request(self, *args: Any, **options: Any) -> tuple[int, bytes]:
        """Do as the library does, but replace a pool that gives no connection in time: one that breaks at the wrong
        moment never leaves it (httpcore 1.0.9), and the bot would hear nothing until it is started again. Requests in
        the old pool go on."""
        client = self._client
        try:
            return await super().do_request(*args, **options)
        except TimedOut as error:
            if isinstance(error.__cause__, httpx.PoolTimeout) and self._client is client:
                self._client = self._build_client()
            raise

    async def stream(self, url: str) -> AsyncGenerator[bytes]:
        """Yield the content of a file. Raises NetworkError, and BadRequest if the server does not have it."""
        try:
            async with self._client.stream("GET", url) as answer:
                if answer.status_code != HTTPStatus.OK:
                    gone = answer.is_client_error and answer.status_code != HTTPStatus.TOO_MANY_REQUESTS
                    raise (BadRequest if gone else NetworkError)(f"the file's address answered {answer.status_code}")
                async for chunk in answer.aiter_bytes(_CHUNK_BYTES):
                    yield chunk
        except httpx.HTTPError as error:
            raise NetworkError(type(error).__name__) from error


class TelegramBot(Bot):
    """One bot. Its methods raise TelegramError, whose text may have the token in it."""

    def __init__(self, token: str, base_url: str | None = None) -> None:
        methods, files = api_urls(base_url)
        self._connections = Request()
        super().__init__(
            token,
            base_url=methods,
            base_file_url=files,
            request=self._connections,
            get_updates_request=Request(connections=1),
        )

    async def poll(self, *, offset: int | None, seconds: float, allowed: Sequence[str]) -> list[dict[str, Any]]:
        """Return the next updates as they came. `get_updates` would lose all of them if it cannot parse one."""
        answer = await self._post(
            "getUpdates",
            {"offset": offset, "timeout": int(seconds), "allowed_updates": list(allowed)},
            read_timeout=seconds + 10,
        )
        if not isinstance(answer, list):
            raise TelegramError("getUpdates did not answer a list")
        return [update for update in cast("list[Any]", answer) if isinstance(update, dict)]

    def stream(self, url: str) -> AsyncGenerator[bytes]:
        """Yield the content of a file that `get_file` has named."""
        return self._connections.stream(url)

    async def aclose(self) -> None:
        """Close all connections. `shutdown` would leave those of a bot that was never initialised."""
        for request in self._request:
            await request.shutdown()
