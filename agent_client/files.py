"""The files of an agent's workspace (docs/reference/workspace.md)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from dataclasses import dataclass

from agent_common.protocol import WorkspaceEntry, WorkspaceListing

from .errors import UnexpectedReply
from .http import WRITE_SECONDS, Call, Connection, pages, path, read_bytes


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
        async with aclosing(read_bytes(self._connection, _route(path), start, end)) as pieces:
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
        nothing. One from an iterator may take 10 minutes. Raises PreconditionFailed, Conflict, Forbidden."""
        headers = _conditions(if_match)
        if only_new:
            headers["If-None-Match"] = "*"
        content = data.encode() if isinstance(data, str) else data
        whole = isinstance(content, bytes)
        call = Call(
            "PUT",
            _route(path),
            headers=headers,
            content=content,
            repeatable=whole and not headers,
            timeout=None if whole else WRITE_SECONDS,
        )
        reply = await self._connection.send(call)
        return reply.headers["etag"]

    async def delete(self, path: str, *, if_match: str | None = None) -> None:
        """Delete a file; the workspace keeps a backup. Raises NotFound, PreconditionFailed."""
        await self._connection.send(Call("DELETE", _route(path), headers=_conditions(if_match)))


def _route(name: str) -> str:
    return path("workspace", *name.strip("/").split("/")) if name.strip("/") else "/workspace"


def _conditions(if_match: str | None) -> dict[str, str]:
    return {} if if_match is None else {"If-Match": if_match}
