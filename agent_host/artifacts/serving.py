"""Responses with the bytes of an artifact, which no browser shows or runs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from typing import Any, BinaryIO
from urllib.parse import quote

from fastapi import Request, Response
from sqlalchemy import Row
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from agent_common.api import RangeNotSatisfiable, parse_range, problem_response

from .artifacts import OpenedArtifact

STALL_SECONDS = 30.0
"""Longest time in which a reader accepts nothing."""
_PIECE = 256 * 1024


class FileStream(StreamingResponse):
    """A part of an open file, which it closes. It ends when the reader accepts nothing for too long."""

    def __init__(
        self,
        file: BinaryIO,
        start: int,
        end: int,
        status: int,
        headers: dict[str, str],
        share: AbstractContextManager[None],
    ) -> None:
        """`share`: is entered while the file is sent."""
        super().__init__(_pieces(file, start, end), status, headers)
        self._file = file
        self._share = share

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file, self._share:
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        async def in_time(message: Message) -> None:
            async with asyncio.timeout(STALL_SECONDS):
                await send(message)

        try:
            await super().stream_response(in_time)
        except TimeoutError:
            return  # the response stays incomplete, which its length shows


def artifact_headers(row: Row[Any]) -> dict[str, str]:
    """Return the headers of a version, without its length."""
    name = quote(row.name.rpartition("/")[2], safe="")
    digest = base64.b64encode(bytes.fromhex(row.sha256)).decode()
    return {
        "content-type": row.media_type,
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
        "cache-control": "private, no-cache",
        "accept-ranges": "bytes",
        "etag": f'"{row.version}"',
        "repr-digest": f"sha-256=:{digest}:",
    }


def file_response(request: Request, opened: OpenedArtifact, share: AbstractContextManager[None]) -> Response:
    """Return the bytes, or the range of them that the request asks for. `share`: is entered while they are sent."""
    row = opened.row
    headers = artifact_headers(opened.row)
    wanted = request.headers.get("range")
    if request.headers.get("if-range", headers["etag"]) != headers["etag"]:
        wanted = None
    try:
        part = parse_range(wanted, row.size)
    except RangeNotSatisfiable:
        opened.file.close()
        more = {"content-range": f"bytes */{row.size}"}
        detail = f"Range: the artifact {row.name!r} has {row.size} bytes"
        return problem_response(416, "out_of_range", detail, request.url.path, headers=more)
    start, end = part or (0, row.size)
    headers["content-length"] = str(end - start)
    if part is not None:
        headers["content-range"] = f"bytes {start}-{end - 1}/{row.size}"
    return FileStream(opened.file, start, end, 206 if part else 200, headers, share)


async def _pieces(file: BinaryIO, start: int, end: int) -> AsyncIterator[bytes]:
    await asyncio.to_thread(file.seek, start)
    while start < end and (data := await asyncio.to_thread(file.read, min(_PIECE, end - start))):
        start += len(data)
        yield data
