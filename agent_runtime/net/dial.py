"""Connections for HTTP clients: straight on asyncio, a request in one packet.

httpcore writes a request's head and body one after the other; here they wait for each other until the answer is read,
so that a model call wakes its provider once. There is no TLS in here: what is encrypted takes httpcore's own way.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore

LARGE = 64 * 1024
"""Bytes that are not held back any longer."""


class Dialer(httpcore.AsyncNetworkBackend):
    """Opens TCP and unix connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return await _open(asyncio.open_connection(host, port, limit=LARGE), timeout)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109  httpcore's signature
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return await _open(asyncio.open_unix_connection(path, limit=LARGE), timeout)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._held = bytearray()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._held:
            await self._flush(timeout)
        try:
            async with asyncio.timeout(timeout):
                return await self._reader.read(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._held += buffer
        if len(self._held) >= LARGE:
            await self._flush(timeout)

    async def aclose(self) -> None:
        self._writer.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError("this connection does not speak TLS")

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # httpcore asks this of an idle connection: readable means that it was hung up
            return self._reader.at_eof() or self._writer.is_closing()
        return None

    async def _flush(self, timeout: float | None) -> None:  # noqa: ASYNC109
        held, self._held = bytes(self._held), bytearray()
        try:
            self._writer.write(held)
            async with asyncio.timeout(timeout):
                await self._writer.drain()
        except TimeoutError as error:
            raise httpcore.WriteTimeout from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error


async def _open(connecting: Any, timeout: float | None) -> _Stream:  # noqa: ASYNC109
    try:
        async with asyncio.timeout(timeout):
            return _Stream(*await connecting)
    except TimeoutError as error:
        raise httpcore.ConnectTimeout from error
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from error
