"""Bytes that are read over several connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from time import monotonic
from typing import Any

import httpx2

from ..errors import ApiError, UnexpectedReply
from .connection import Call, Connection
from .resume import resumed

READ_SECONDS = 600.0


async def read_bytes(
    connection: Connection, route: str, start: int = 0, end: int | None = None, params: dict[str, Any] | None = None
) -> AsyncGenerator[bytes]:
    """Yield what a route has, or its bytes from `start` up to `end`, piece by piece. A broken connection is continued
    at the byte where it broke. Raises ClientError, UnexpectedReply if the content has changed since."""
    if start < 0 or (end is not None and end < start):
        raise ValueError("start and end: 0 <= start <= end")
    if end == start:
        return
    reading = _Reading(connection, route, start, end, params or {})
    async with aclosing(resumed(reading.pieces, deadline=monotonic() + READ_SECONDS)) as pieces:
        async for piece in pieces:
            yield piece


class _Reading:
    """What is read: from where the last connection broke, and of the same version."""

    def __init__(self, connection: Connection, route: str, start: int, end: int | None, params: dict[str, Any]) -> None:
        self._connection = connection
        self._route = route
        self._params = params
        self._at = start
        self._end = end
        self._etag: str | None = None
        self._until: int | None = None
        """Where the wanted bytes end, once a response has said so."""

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield what is missing."""
        try:
            async with aclosing(self._missing()) as pieces:
                async for piece in pieces:
                    yield piece
        except ApiError as error:
            if error.status != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or self._at > 0:
                raise  # but an empty file has no first byte

    async def _missing(self) -> AsyncGenerator[bytes]:
        if self._at == self._until:
            return
        headers: dict[str, str] = {}
        if self._at > 0 or self._end is not None:
            headers["Range"] = f"bytes={self._at}-{'' if self._end is None else self._end - 1}"
        if self._etag is not None:
            headers["If-Match"] = self._etag
        call = Call("GET", self._route, params=self._params, headers=headers)
        async with self._connection.stream(call) as response:
            if "etag" not in response.headers:
                raise UnexpectedReply(f"{self._route} is a folder; list it")
            if self._etag not in (None, response.headers["etag"]):
                raise UnexpectedReply(f"{self._route} has changed while it was read")
            self._etag = response.headers["etag"]
            self._until = self._at + _length(response, self._route)
            if self._end is not None and self._until > self._end:
                raise UnexpectedReply(f"{self._route} answered more bytes than it was asked for")
            async for piece in response.aiter_bytes():
                self._at += len(piece)
                yield piece


def _length(response: httpx2.Response, route: str) -> int:
    """Return how many bytes the body has, as its server says: the connection breaks where it has fewer or more."""
    length = response.headers.get("content-length", "")
    if not (length.isascii() and length.isdecimal() and len(length) < 19):
        raise UnexpectedReply(f"{route} does not say how long its answer is")
    return int(length)
