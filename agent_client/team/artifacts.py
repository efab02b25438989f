"""The artifacts of a team: files in versions (docs/reference/artifacts.md)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import mimetypes
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing

from agent_common.protocol import Artifact, ArtifactList, StoredArtifact

from ..errors import UnexpectedReply
from ..http import WRITE_SECONDS, Call, Connection, pages, path, read_bytes
from .requests import conditions, team_params

_UNKNOWN = "application/octet-stream"
_BY_NAME = mimetypes.MimeTypes()
"""Of Python alone: those of the machine differ."""


class Artifacts:
    """The artifacts. A write is carried out only if the newest version is `if_version`, or with `if_absent` if there is
    none; else it raises PreconditionFailed."""

    def __init__(self, connection: Connection, team: str | None) -> None:
        self._connection = connection
        self._team = team_params(team)

    async def list(self, prefix: str = "") -> AsyncGenerator[Artifact]:
        """Yield the artifacts whose names begin so, by name, each in its newest version."""
        call = Call("GET", "/artifacts", params={**self._team, "prefix": prefix})
        async for page in pages(self._connection, ArtifactList, call):
            for artifact in page.artifacts:
                yield artifact

    async def stat(self, name: str, *, version: int | None = None) -> StoredArtifact:
        """Look a version up, or the newest. Raises NotFound."""
        reply = await self._connection.send(Call("HEAD", _route(name), params=self._params(version)))
        try:
            digest = base64.b64decode(reply.headers["repr-digest"].removeprefix("sha-256=:").removesuffix(":"))
            return StoredArtifact(
                name=name,
                version=int(reply.headers["etag"].strip('"')),
                sha256=digest.hex(),
                size=int(reply.headers["content-length"]),
                media_type=reply.headers["content-type"],
            )
        except (KeyError, ValueError, binascii.Error) as error:
            raise UnexpectedReply(f"{_route(name)} did not answer as an artifact does") from error

    async def read(self, name: str, *, version: int | None = None) -> bytes:
        """Read a version, or the newest. Raises NotFound."""
        return b"".join([piece async for piece in self.stream(name, version=version)])

    async def stream(self, name: str, *, version: int | None = None) -> AsyncGenerator[bytes]:
        """Yield a version piece by piece, over any number of connections. Raises NotFound, and UnexpectedReply at the
        end if the bytes are not those that were saved."""
        about = await self.stat(name, version=version)
        params = self._params(about.version)
        digest = hashlib.sha256()
        async with aclosing(read_bytes(self._connection, _route(name), params=params)) as pieces:
            async for piece in pieces:
                digest.update(piece)
                yield piece
        if digest.hexdigest() != about.sha256:
            raise UnexpectedReply(f"the bytes of {name} version {about.version} are not those that were saved")

    async def write(
        self,
        name: str,
        data: bytes | str | AsyncIterable[bytes],
        *,
        media_type: str | None = None,
        if_version: int | None = None,
        if_absent: bool = False,
    ) -> StoredArtifact:
        """Save a version; without `media_type` the name decides it. Raises PreconditionFailed, InvalidRequest."""
        kind = media_type or _BY_NAME.guess_type(name)[0] or _UNKNOWN
        call = Call(
            "PUT",
            _route(name),
            content=data.encode() if isinstance(data, str) else data,
            params=self._team,
            headers={"Content-Type": kind, **conditions(if_version, if_absent)},
            timeout=WRITE_SECONDS,
        )
        return await self._connection.fetch(StoredArtifact, call)

    async def delete(self, name: str, *, version: int | None = None, if_version: int | None = None) -> None:
        """Delete all versions, or one of them. Raises NotFound, PreconditionFailed."""
        call = Call("DELETE", _route(name), params=self._params(version), headers=conditions(if_version))
        await self._connection.send(call)

    def _params(self, version: int | None) -> dict[str, str | int]:
        return {**self._team} | ({} if version is None else {"version": version})


def _route(name: str) -> str:
    return path("artifacts", *name.split("/"))
