"""The artifacts of all teams: uploads, reads, and the end of files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import structlog
from sqlalchemy import Connection, Row

from agent_common.clock import Clock
from agent_common.net import ShareCounter
from agent_common.protocol import Cause, StoredArtifact

from ..access import TeamMember
from ..database import BatchWriter, HostDatabase
from ..errors import NotFound, RequestError, TooMany, Unavailable
from ..http import Condition
from ..settings import HostSettings
from .files import ArtifactFiles, new_file_name
from .limits import LIMITS, ArtifactLimits
from .reading import ArtifactPage, known_files, list_artifacts, read_version
from .receiving import receive
from .writing import NewVersion, Stored, check_write, delete_versions, store_version

MOST_UPLOADS = 32
"""Uploads at a time; one caller may have half of those that are free."""
MOST_DOWNLOADED = 4 << 30
"""Bytes of the artifacts that are downloaded at a time; one caller may have half of those that are free."""
_DOWNLOAD_SLOT = 1 << 20
_READ_ATTEMPTS = 3
log = structlog.get_logger(__name__)


async def open_artifacts(
    settings: HostSettings, database: HostDatabase, writer: BatchWriter, clock: Clock
) -> Artifacts:
    """Open the artifacts in the data folder, within the bounds of the settings."""
    limits = ArtifactLimits(settings.artifact_bytes, settings.artifact_names, settings.artifact_versions)
    opened = Artifacts(database, writer, clock, settings.data_dir / "artifacts", limits)
    await opened.open()
    return opened


@dataclass(frozen=True, slots=True)
class OpenedArtifact:
    """A version with its open file. The caller closes the file."""

    row: Row[Any]
    file: BinaryIO


class Artifacts:
    """Files that agents of a team share. `open` it before requests come, and close it before the database."""

    def __init__(
        self, database: HostDatabase, writer: BatchWriter, clock: Clock, folder: Path, limits: ArtifactLimits = LIMITS
    ) -> None:
        self._database = database
        self._writer = writer
        self._clock = clock
        self._limits = limits
        self._files = ArtifactFiles(folder)
        self._uploads = ShareCounter(MOST_UPLOADS)
        self._downloads = ShareCounter(MOST_DOWNLOADED // _DOWNLOAD_SLOT)
        self._removals: set[asyncio.Future[None]] = set()

    async def open(self) -> None:
        """Make the folder, and remove files without rows, which a crash has left."""
        await asyncio.to_thread(self._files.make_folder)
        removed = await self._database.run(self._remove_leftovers)
        if removed:
            log.info("artifact_leftovers_removed", files=removed)

    async def close(self) -> None:
        """Wait for files that are being removed."""
        while self._removals:
            await asyncio.wait(self._removals)

    # ---------------------------------------------------------------- reads

    async def get(self, team: str, name: str, version: int | None) -> Row[Any]:
        """Return a version; None: the newest. Raises NotFound."""
        return await self._database.run(lambda connection: read_version(connection, team, name, version))

    async def read(self, team: str, name: str, version: int | None) -> OpenedArtifact:
        """Open a version; None: the newest. Its bytes stay readable if it is deleted meanwhile. Raises NotFound."""
        for _ in range(_READ_ATTEMPTS):
            row = await self.get(team, name, version)
            with contextlib.suppress(FileNotFoundError):  # it was replaced or deleted since its row was read
                return OpenedArtifact(row, await asyncio.to_thread(self._files.open, row.file))
        raise NotFound(f"the bytes of the artifact {name!r} are no longer there")

    @contextlib.contextmanager
    def downloading(self, member: TeamMember, size: int) -> Generator[None]:
        """Count an artifact of this size as being downloaded during the block: until then its bytes are on the disk,
        also if it is deleted. Raises TooMany."""
        with self._downloads.hold(member.name, max(1, -(-size // _DOWNLOAD_SLOT))) as got:
            if not got:
                raise TooMany("you have your share of downloads; wait for one to end", code="too_many_downloads")
            yield

    async def list(self, team: str, prefix: str, after: str | None, limit: int) -> ArtifactPage:
        """Return a page of artifacts, by name."""
        return await self._database.run(lambda connection: list_artifacts(connection, team, prefix, after, limit))

    # ---------------------------------------------------------------- writes

    async def put(
        self,
        member: TeamMember,
        cause: Cause,
        name: str,
        media_type: str,
        *,
        body: AsyncIterator[bytes],
        declared: int,
        condition: Condition,
    ) -> tuple[StoredArtifact, bool]:
        """Store a version. Returns it, and whether the artifact is new, when file and row are on the disk.

        `declared`: bytes that the body is said to have; 0 if unknown. Raises ArtifactConflict, ArtifactsFull,
        ArtifactTooLarge, UploadFailed, UploadTooSlow, TooMany, and Unavailable if the disk takes no more."""
        with self._uploads.hold(member.name) as got:
            if not got:
                raise TooMany("you have your share of uploads; wait for one to end", code="too_many_uploads")
            await self._database.run(  # before all of it is sent for nothing; what counts is decided at the end
                lambda connection: check_write(connection, member.team, name, declared, condition, self._limits)
            )
            file = new_file_name()
            try:
                size, sha256 = await self._receive(file, body)
                now = self._clock.now_ms()
                text = cause.model_dump_json()
                new = NewVersion(member.team, name, file, sha256, size, media_type, now, member.name, text)
                future = self._writer.submit(lambda connection: self._store(connection, new, condition))
            except BaseException:
                self._remove([file])
                raise
            future.add_done_callback(lambda done: self._after_store(file, done))
            stored = await asyncio.shield(future)
        made = StoredArtifact(name=name, version=stored.version, sha256=sha256, size=size, media_type=media_type)
        return made, stored.is_new

    async def delete(self, member: TeamMember, name: str, version: int | None, condition: Condition) -> None:
        """Delete the artifact with all versions, or one of them. Raises NotFound and ArtifactConflict."""

        def write(connection: Connection) -> list[str]:
            now = self._clock.now_ms()
            limits = self._limits
            return delete_versions(
                connection, member.team, name, version=version, condition=condition, now=now, limits=limits
            )

        future = self._writer.submit(write)
        future.add_done_callback(self._after_delete)  # also if the caller has gone away meanwhile
        await asyncio.shield(future)

    async def _receive(self, name: str, body: AsyncIterator[bytes]) -> tuple[int, str]:
        try:
            with await asyncio.to_thread(self._files.create, name) as file:
                received = await receive(body, file)
                await asyncio.to_thread(self._files.keep, file, name)
        except OSError as error:
            log.error("artifact_not_stored", why=str(error))
            raise Unavailable("the host's disk does not take the artifact; try again later") from error
        return received

    def _store(self, connection: Connection, new: NewVersion, condition: Condition) -> Stored:
        return store_version(connection, new, condition, self._limits)

    # ---------------------------------------------------------------- files without rows

    def _after_store(self, file: str, done: asyncio.Future[Stored]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, RequestError):
            self._remove([file])
        elif error is None and not done.cancelled():
            self._remove(done.result().replaced)
        # After an error of the database the row may be there all the same: the next start decides.

    def _after_delete(self, done: asyncio.Future[list[str]]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._remove(done.result())

    def _remove(self, files: list[str]) -> None:
        """Remove files in the background. What fails, or is cut short, the next start removes."""
        if not files:
            return
        removal = asyncio.ensure_future(asyncio.to_thread(self._files.remove, files))
        self._removals.add(removal)
        removal.add_done_callback(self._removed)

    def _removed(self, removal: asyncio.Future[None]) -> None:
        self._removals.discard(removal)
        if not removal.cancelled() and (error := removal.exception()) is not None:
            log.warning("artifact_not_removed", why=str(error))

    def _remove_leftovers(self, connection: Connection) -> int:
        removed = 0
        for files in self._files.batches():
            leftovers = set(files) - known_files(connection, files)
            self._files.remove(list(leftovers))
            removed += len(leftovers)
        return removed
