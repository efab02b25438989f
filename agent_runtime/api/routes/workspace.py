"""`/workspace`: the agent's files with their ETags, and the listing of folders."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import PurePosixPath
from typing import BinaryIO
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.convertors import Convertor, register_url_convertor

from agent_common.api import RangeNotSatisfiable, parse_range, problem_response
from agent_common.protocol import NoQuery, WorkspaceQuery

from ...errors import InvalidRequest
from ...workspace import OpenedFile, Preconditions
from ..dependencies import get_services, parse_query, principal, require_accepting
from ..responses import PacedStreamingResponse, model_response


class _File(Convertor[str]):
    """Matches any path, because a name may contain line breaks."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("file", _File())
router = APIRouter(tags=["workspace"])
PIECE = 64 * 1024
BINARY = "application/octet-stream"
TEXT_TYPES = {".md": "text/markdown", ".csv": "text/csv", ".json": "application/json"}
"""Types that no browser executes; all other text is plain."""
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
    "Vary": "X-Agent-User",
}
"""Headers that keep a browser from treating files of an agent or a command as pages of this server."""


@router.get("/workspace")
async def workspace(request: Request) -> Response:
    """List the workspace, with the sizes of the files that every session's prompt shows."""
    return await _listing(request, "")


@router.head("/workspace")
async def workspace_head(request: Request) -> Response:
    """Return the headers of GET without the content."""
    return await _listing(request, "")


@router.get("/workspace/{path:file}")
async def read(request: Request, path: str) -> Response:
    """Return a file, or a page of a folder's entries."""
    name = path.removesuffix("/")
    found = await asyncio.to_thread(get_services(request).files.open, principal(request), name) if name else None
    if found is None:
        return await _listing(request, name)
    try:
        _refuse_parameters(request)
        return _file(request, name, found)
    except BaseException:
        found.file.close()
        raise


@router.head("/workspace/{path:file}")
async def about(request: Request, path: str) -> Response:
    """Return the headers of GET without the content."""
    name = path.removesuffix("/")
    found = await asyncio.to_thread(get_services(request).files.open, principal(request), name) if name else None
    if found is None:
        return await _listing(request, name)
    found.file.close()
    _refuse_parameters(request)
    headers = _headers(name, found)
    if _conditions(request).is_not_modified(found.etag):
        return Response(status_code=304, headers=headers)
    return Response(headers={**headers, "Content-Length": str(found.size)})


@router.put("/workspace/{path:file}", status_code=204, responses={201: {"description": "It is new"}})
async def write(request: Request, path: str) -> Response:
    """Replace a whole file. `If-Match` and `If-None-Match: *` protect versions that the caller does not know."""
    at = require_accepting(request)
    parse_query(request, NoQuery)
    for header in ("content-range", "content-encoding"):
        if request.headers.get(header, "identity") != "identity":
            raise InvalidRequest("the body must be the whole file, unencoded", faults=[(header, "is not understood")])
    stored = await at.files.put(principal(request), path, await request.body(), _conditions(request))
    if not stored.created:
        return Response(status_code=204, headers={"ETag": stored.etag})
    return Response(status_code=201, headers={"ETag": stored.etag, "Location": f"/workspace/{quote(path)}"})


@router.delete("/workspace/{path:file}", status_code=204)
async def remove(request: Request, path: str) -> Response:
    """Delete a file; with `If-Match` only the version that the caller knows."""
    at = require_accepting(request)
    parse_query(request, NoQuery)
    await at.files.remove(principal(request), path, _conditions(request))
    return Response(status_code=204)


async def _listing(request: Request, path: str) -> Response:
    at = get_services(request)
    asked = parse_query(request, WorkspaceQuery)
    found = await asyncio.to_thread(at.files.listing, principal(request), path, asked.after, asked.limit)
    return model_response(found)


def _file(request: Request, path: str, found: OpenedFile) -> Response:
    headers = _headers(path, found)
    if _conditions(request).is_not_modified(found.etag):
        found.file.close()
        return Response(status_code=304, headers=headers)
    wanted = request.headers.get("range")
    if request.headers.get("if-range", found.etag) != found.etag:
        wanted = None
    try:
        part = parse_range(wanted, found.size)
    except RangeNotSatisfiable:
        found.file.close()
        detail = f"{path} has {found.size} bytes"
        more = {"Content-Range": f"bytes */{found.size}"}
        return problem_response(416, "out_of_range", detail, request.url.path, headers=more)
    start, end = part or (0, found.size)
    headers["Content-Length"] = str(end - start)
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{found.size}"
    code = 206 if part else 200
    if isinstance(found.file, io.BytesIO):
        return Response(found.file.getvalue()[start:end], code, headers)
    return PacedStreamingResponse(_pieces(found.file, start, end), code, headers)


def _headers(path: str, found: OpenedFile) -> dict[str, str]:
    name = PurePosixPath(path).name
    kind = (
        f"{TEXT_TYPES.get(PurePosixPath(path).suffix.lower(), 'text/plain')}; charset=utf-8" if found.text else BINARY
    )
    shown = "inline" if found.text else "attachment"
    disposition = f"{shown}; filename*=UTF-8''{quote(name, safe='')}"
    return {
        **SAFE_HEADERS,
        "Content-Type": kind,
        "Content-Disposition": disposition,
        "ETag": found.etag,
        "Accept-Ranges": "bytes",
    }


def _conditions(request: Request) -> Preconditions:
    return Preconditions.from_headers(request.headers.get("if-match"), request.headers.get("if-none-match"))


def _refuse_parameters(request: Request) -> None:
    if request.query_params:
        faults = [(name, "is for folders; use a Range header for a part of a file") for name in request.query_params]
        raise InvalidRequest("a file takes no parameters", faults=faults)


async def _pieces(file: BinaryIO, start: int, end: int) -> AsyncIterator[bytes]:
    """Yield the file from `start` to `end`, then close it."""
    try:
        await asyncio.to_thread(file.seek, start)
        while start < end and (data := await asyncio.to_thread(file.read, min(PIECE, end - start))):
            start += len(data)
            yield data
    finally:
        file.close()
