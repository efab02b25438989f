"""The files of an agent's workspace (docs/reference/workspace.md)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from dataclasses import dataclass
from time import monotonic
from urllib.parse import quote

from agent_common.protocol import WorkspaceEntry, WorkspaceListing

from .errors import UnexpectedReply
from .http import Call, Connection, pages, resumed

READ_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file without its content."""

    path: str
    size: int
    etag: str
    """The version, for `if_match`."""
    content_type: str


class Files:
    """The workspace: paths are relative to it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, path: str = "") -> AsyncGenerator[WorkspaceEntry]:
        """Yield the entries of a folder, in the order of their names. Raises NotFound."""
        async for page in pages(self._connection, WorkspaceListing, Call("GET", _route(path))):
            for entry in page.entries:
                yield entry

    async def stat(self, path: str) -> FileInfo:
        """Look a file up. Raises NotFound."""
        reply = await self._connection.send(Call("HEAD", _route(path)))
        kind = reply.headers.get("content-type", "")
        if "etag" not in reply.headers:
            raise UnexpectedReply(f"{path} is a folder; list it")
        return FileInfo(path, int(reply.headers.get("content-length", 0)), reply.headers["etag"], kind)

    async def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Read a file, or its bytes from `start` up to `end`. Raises NotFound."""
        return b"".join([piece async for piece in self.stream(path, start, end)])

    async def stream(self, path: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes]:
        """Yield a file piece by piece. A broken connection is continued at the byte where it broke; raises
        UnexpectedReply if the file has changed since. Raises NotFound."""
        if start < 0 or (end is not None and end < start):
            raise ValueError("start and end: 0 <= start <= end")
        if end == start:
            return
        reading = _Reading(self._connection, path, start, end)
        async with aclosing(resumed(reading.pieces, deadline=monotonic() + READ_SECONDS)) as pieces:
            async for piece in pieces:
                yield piece

    async def write(
        self,
        path: str,
        data: bytes | str | AsyncIterable[bytes],
        *,
        if_match: str | None = None,
        only_new: bool = False,
    ) -> str:
        """Put a whole file in place and return its new version. `if_match` replaces that version only, `only_new`
        nothing. Raises PreconditionFailed, Conflict, Forbidden."""
        headers = _conditions(if_match)
        if only_new:
            headers["If-None-Match"] = "*"
        content = data.encode() if isinstance(data, str) else data
        safe = isinstance(content, bytes) and not headers
        reply = await self._connection.send(
            Call("PUT", _route(path), headers=headers, content=content, repeatable=safe)
        )
        return reply.headers["etag"]

    async def delete(self, path: str, *, if_match: str | None = None) -> None:
        """Delete a file; the workspace keeps a backup. Raises NotFound, PreconditionFailed."""
        await self._connection.send(Call("DELETE", _route(path), headers=_conditions(if_match)))


class _Reading:
    """A file that is read over several connections: from where the last one broke, and the same version."""

    def __init__(self, connection: Connection, path: str, start: int, end: int | None) -> None:
        self._connection, self._path, self._at, self._end = connection, path, start, end
        self._etag: str | None = None
        self._until: int | None = None
        """Where the wanted bytes end, once a response has said so."""

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield what is missing."""
        if self._at == self._until:
            return
        headers: dict[str, str] = {}
        if self._at > 0 or self._end is not None:
            headers["Range"] = f"bytes={self._at}-{'' if self._end is None else self._end - 1}"
        if self._etag is not None:
            headers["If-Match"] = self._etag
        async with self._connection.stream(Call("GET", _route(self._path), headers=headers)) as response:
            if "etag" not in response.headers:
                raise UnexpectedReply(f"{self._path} is a folder; list it")
            if self._etag not in (None, response.headers["etag"]):
                raise UnexpectedReply(f"{self._path} has changed while it was read")
            self._etag, self._until = response.headers["etag"], self._at + int(response.headers["content-length"])
            async for piece in response.aiter_bytes():
                self._at += len(piece)
                yield piece


def _route(path: str) -> str:
    return f"/workspace/{quote(path.strip('/'))}" if path.strip("/") else "/workspace"


def _conditions(if_match: str | None) -> dict[str, str]:
    return {} if if_match is None else {"If-Match": if_match}
