"""The workspace for callers over HTTP: one path is one file, and personal paths lead each principal to their own.

Commands write here at the same time and cannot be made to wait. What is guaranteed: nothing is read or written through
a link, a reader gets the content from when the file was opened, and changes by tools and callers happen one after
another, each with a backup of the old version.
"""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import io
import os
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote_to_bytes

from agent_common.protocol import BootstrapState, EntryType, WorkspaceEntry, WorkspaceListing

from ...errors import NotAllowed, NotFound, PreconditionFailed, TooLarge, ToolFailure
from ..backups import MAX_DEPTH, FileBackups
from ..copies import folder_of_copies
from ..home import Home
from ..locks import PathLocks
from ..principal_paths import (
    OPERATOR,
    PERSONAL_NAMES,
    holds_personal,
    make_personal_folder,
    personal_folder,
    resolve_for_principal,
    root_for_principal,
    split_path,
)
from ..prompt_files.authorship import PromptFileAuthors
from ..prompt_files.bootstrap import PROMPT_CAPS, read_prompt_file
from ..safe_path import SafePath
from .http_errors import failures_as_http
from .preconditions import Preconditions
from .write_quota import WriteQuota

Found = list[tuple[str, os.stat_result]]
PUT_CAPS = {"AGENTS.md": 32_000, "SOUL.md": 4_000, "USER.md": 4_000, "MEMORY.md": 64_000}
"""Maximum characters of a file that is shown to sessions."""
MAX_PARENT_FOLDERS = MAX_DEPTH - 2
"""Maximum number of folders above a file that is put; its backups are two levels deeper."""
MAX_BUFFERED_BYTES = 1024 * 1024
"""Maximum bytes of a file that is read into memory at once, so that a consistent version is sent."""
MAX_HASHED_BYTES = 16 * 1024 * 1024
"""Maximum bytes of a file whose ETag is a hash of its content."""
PIECE = 256 * 1024
SAMPLE = 8192
"""Bytes read to decide whether a file is text."""
OWN_BACKUPS = 4 * 1024 * 1024
"""Maximum bytes of the backups of one principal's files outside the workspace."""


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file to send; the receiver closes it."""

    file: BinaryIO
    size: int
    etag: str
    text: bool
    """Whether its beginning is UTF-8 text."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    etag: str
    created: bool


class FileService:
    """The operations of `/workspace`. All methods raise RequestError; those that are not coroutines block on the
    disk."""

    def __init__(
        self,
        home: Home,
        locks: PathLocks,
        backups: FileBackups,
        own_backups: FileBackups,
        write_quota: WriteQuota,
        authors: PromptFileAuthors | None = None,
    ) -> None:
        """`own_backups` makes the backups of files outside the workspace; `authors` is told what people write."""
        self._authors = authors
        self._home = home
        self._locks = locks
        self._write_quota = write_quota
        self._backups = backups
        self._own_backups = own_backups

    # -- reading

    def open(self, principal: str, path: str) -> OpenedFile | None:
        """Open a file; None if the path is a folder."""
        with failures_as_http(path):
            safe_path = resolve_for_principal(self._home, principal, path)
            found = safe_path.lstat()
            if found is None and not (self._has_own_folder(principal) and holds_personal(split_path(path))):
                raise NotFound(f"there is no {path} in the workspace", code="unknown_path")
            if found is None or stat.S_ISDIR(found.st_mode):
                return None
            if stat.S_ISLNK(found.st_mode):
                raise NotAllowed(f"{path} is a link, and links are not followed", code="link")
            return _opened(safe_path)

    def listing(self, principal: str, path: str, after: str | None, limit: int) -> WorkspaceListing:
        """Return one page of a folder."""
        with failures_as_http(path):
            found = self._page(principal, split_path(path), unquote_to_bytes(after or ""), limit + 1)
        more = len(found) > limit
        return WorkspaceListing(
            path=path,
            entries=[_entry(name, about) for name, about in found[:limit]],
            next=quote(os.fsencode(found[limit - 1][0]), safe="") if more else None,
            bootstrap=None if path or after else self._bootstrap(principal),
        )

    def _page(self, principal: str, parts: tuple[str, ...], after: bytes, most: int) -> Found:
        own = personal_folder(self._home, principal)
        if not self._has_own_folder(principal) or not holds_personal(parts):
            return _safe_path(root_for_principal(self._home, principal, parts), parts).page(after, most)
        workspace = root_for_principal(self._home, OPERATOR, parts)
        shared = _page_if_any(_safe_path(workspace, parts), after, most + len(PERSONAL_NAMES))
        mine = _page_if_any(_safe_path(own, parts), after, most)
        both = [one for one in shared if one[0] not in PERSONAL_NAMES] + [
            one for one in mine if one[0] in PERSONAL_NAMES
        ]
        return sorted(both, key=lambda one: os.fsencode(one[0]))[:most]

    def _has_own_folder(self, principal: str) -> bool:
        return personal_folder(self._home, principal) != self._home.workspace

    def _bootstrap(self, principal: str) -> list[BootstrapState]:
        def is_cut(name: str) -> bool:
            file = read_prompt_file(resolve_for_principal(self._home, principal, name), name, PROMPT_CAPS[name])
            return file is not None and file.truncated

        return [
            BootstrapState(
                name=name, size=self._size(principal, name), cap=cap, prompt_cap=PROMPT_CAPS[name], cut=is_cut(name)
            )
            for name, cap in PUT_CAPS.items()
        ]

    def _size(self, principal: str, name: str) -> int | None:
        found = resolve_for_principal(self._home, principal, name).lstat()
        return found.st_size if found is not None and stat.S_ISREG(found.st_mode) else None

    # -- changing

    async def put(self, principal: str, path: str, data: bytes, conditions: Preconditions) -> StoredFile:
        """Replace a whole file. It is on disk when this returns."""
        with failures_as_http(path):
            safe_path = self._writable_path(principal, path)
            _check_depth(path)
            _check_cap(path, data)
            async with self._locks.async_lock(safe_path.path):
                # The conditions are checked first, before a possible error about missing space.
                await asyncio.to_thread(self._check, safe_path, conditions)
                await self._write_quota.require_space(safe_path, len(data))
                return await asyncio.to_thread(self._put, principal, safe_path, data, conditions)

    async def remove(self, principal: str, path: str, conditions: Preconditions) -> None:
        """Delete a file after backing it up."""
        with failures_as_http(path):
            safe_path = self._writable_path(principal, path)
            async with self._locks.async_lock(safe_path.path):
                await asyncio.to_thread(self._remove, safe_path, conditions)

    def _writable_path(self, principal: str, path: str) -> SafePath:
        parts = split_path(path)
        if not parts:
            raise ToolFailure("path: must name a file in the workspace", kind="invalid")
        if (folder := folder_of_copies(parts)) is not None:
            raise NotAllowed(f"{folder} is kept by the runtime and is read-only", code="read_only")
        return resolve_for_principal(self._home, principal, path)

    def _put(self, principal: str, safe_path: SafePath, data: bytes, conditions: Preconditions) -> StoredFile:
        with self._locked(safe_path):
            self._check(safe_path, conditions)
            if safe_path.root != self._home.workspace:
                make_personal_folder(self._home, principal)
            with self._backups_of(safe_path).backing_up(safe_path, data):
                created = safe_path.write_atomically(data)
            if self._authors is not None:
                self._authors.forget(safe_path.path)
        return StoredFile(_content_tag(data), created)

    def _remove(self, safe_path: SafePath, conditions: Preconditions) -> None:
        with self._locked(safe_path):
            self._check(safe_path, conditions)
            with self._backups_of(safe_path).backing_up(safe_path):
                safe_path.remove()
            if safe_path.root != self._home.workspace:
                _remove_empty_folders(safe_path)

    @contextmanager
    def _locked(self, safe_path: SafePath) -> Generator[None]:
        """Lock a file for a change, and with a personal one the folders above it, which may come and go."""
        with ExitStack() as locks:
            locks.enter_context(self._locks.thread_lock(safe_path.path))
            if safe_path.root != self._home.workspace:
                locks.enter_context(self._locks.thread_lock(safe_path.root))
            yield

    def _check(self, safe_path: SafePath, conditions: Preconditions) -> None:
        if conditions == Preconditions():
            return
        found = safe_path.lstat()
        etag = None
        if found is not None and stat.S_ISREG(found.st_mode):
            opened = _opened(safe_path)
            opened.file.close()
            etag = opened.etag
        if fault := conditions.failure(etag):
            raise PreconditionFailed(f"{safe_path.shown}: {fault}", headers={"ETag": etag} if etag else None)

    def _backups_of(self, safe_path: SafePath) -> FileBackups:
        return self._backups if safe_path.root == self._home.workspace else self._own_backups


def _safe_path(root: Path, parts: tuple[str, ...]) -> SafePath:
    return SafePath(root, root.joinpath(*parts), "/".join(parts) or "the workspace")


def _page_if_any(safe_path: SafePath, after: bytes, most: int) -> Found:
    try:
        return safe_path.page(after, most)
    except ToolFailure as failure:
        if isinstance(failure.__cause__, FileNotFoundError):
            return []
        raise


def _remove_empty_folders(gone: SafePath) -> None:
    """Remove the folders above that have become empty, but for the one that each principal has."""
    for above in gone.path.parents:
        if gone.root in (above, above.parent) or not SafePath(gone.root, above, "").remove_if_empty():
            return


def _check_depth(path: str) -> None:
    if path.count("/") > MAX_PARENT_FOLDERS:
        raise ToolFailure(f"path: may lead through {MAX_PARENT_FOLDERS} folders at most", kind="invalid")


def _check_cap(path: str, data: bytes) -> None:
    cap = PUT_CAPS.get(path)
    if cap is not None and len(data) > cap and (size := len(data.decode(errors="replace"))) > cap:
        raise TooLarge(f"{path} may have {cap} characters, and this would be {size}; keep more in a file beside it")


def _opened(safe_path: SafePath) -> OpenedFile:
    with safe_path.open() as file:
        about = os.fstat(file.fileno())
        if about.st_size <= MAX_BUFFERED_BYTES:
            data = file.read(MAX_BUFFERED_BYTES)
            return OpenedFile(io.BytesIO(data), len(data), _content_tag(data), _is_text(data[:SAMPLE]))
        kept = os.fdopen(os.dup(file.fileno()), "rb")
    try:
        sample = kept.read(SAMPLE)
        etag = _tag_of(kept) if about.st_size <= MAX_HASHED_BYTES else _version_tag(about)
        kept.seek(0)
    except BaseException:
        kept.close()
        raise
    return OpenedFile(kept, about.st_size, etag, _is_text(sample))


def _content_tag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def _tag_of(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(PIECE):
        digest.update(piece)
    return f'"{digest.hexdigest()[:32]}"'


def _version_tag(about: os.stat_result) -> str:
    """Return the ETag of a file that is too large to hash, from metadata that every change alters."""
    facts = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return f'"v{hashlib.sha256(repr(facts).encode()).hexdigest()[:32]}"'


def _is_text(sample: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(sample, final=len(sample) < SAMPLE)  # the sample may end inside a character
    except UnicodeDecodeError:
        return False
    return b"\0" not in sample


def _entry(name: str, about: os.stat_result) -> WorkspaceEntry:
    kinds: dict[int, EntryType] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    shown = os.fsencode(name).decode(errors="replace")
    kind = kinds.get(stat.S_IFMT(about.st_mode), "other") if shown == name else "other"
    size = about.st_size if kind == "file" else None
    return WorkspaceEntry(name=shown, type=kind, size=size, modified=about.st_mtime_ns // 1_000_000)
