"""A checked path, and the only functions that open it.

Commands of the model share these folders with the server, which may be root. So nothing is opened by its full path:
each folder is opened relative to the one above it, and links are refused. A link that existed when the path was
resolved has been followed and checked; a later one may be an attack.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import os
import secrets
import stat
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ..errors import ToolFailure

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NOT_REPLACEABLE = frozenset({errno.EBUSY, errno.EROFS, errno.EACCES, errno.EPERM})
"""Errors of replacing a file after which it can perhaps be written all the same."""
MODE = 0o644


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """A file that is being written."""

    file: BinaryIO
    commit: Callable[[], bool]
    """Puts it in its place, durably. Returns True if there was no file before. Raises ToolFailure."""


@dataclass(frozen=True, slots=True)
class SafePath:
    """A path below a root. All methods raise ToolFailure with a text that helps the model."""

    root: Path
    """A folder that commands cannot replace."""
    path: Path
    """Absolute, and without links when it was resolved."""
    shown: str
    """The path as the model knows it."""

    @contextmanager
    def open(self) -> Generator[BinaryIO]:
        """Open the file for reading. Folders, pipes and devices are refused."""
        with self._os_errors_explained(), self._open_parent() as folder:
            descriptor = os.open(self.path.name, READ, dir_fd=folder)
        try:
            found = os.fstat(descriptor)
            self._require_file(found)
            if found.st_nlink > 1:
                self._require_readable_by_owner(found)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)

    def entries(self, limit: int) -> tuple[list[tuple[str, os.stat_result]], bool]:
        """Return at most `limit` entries of this folder in no order, with their stat results (of links themselves), and
        whether these are all."""
        with self._os_errors_explained(), self._open_for_listing() as folder, os.scandir(folder) as found:
            names = [entry.name for entry in itertools.islice(found, limit + 1)]
            return _stat_all(names[:limit], folder), len(names) <= limit

    def page(self, after: bytes, limit: int) -> list[tuple[str, os.stat_result]]:
        """Return the entries after a name, at most `limit`, sorted by their bytes. Memory is needed only for the
        page."""
        with self._os_errors_explained(), self._open_for_listing() as folder, os.scandir(folder) as found:
            names = (entry.name for entry in found if os.fsencode(entry.name) > after)
            return _stat_all(heapq.nsmallest(limit, names, key=os.fsencode), folder)

    def lstat(self) -> os.stat_result | None:
        """Return the stat result of the path, for a link that of the link itself; None if nothing exists there."""
        try:
            with self._os_errors_explained():
                if self.path == self.root:
                    return os.stat(self.root, follow_symlinks=False)
                with self._open_parent() as folder:
                    return self._stat(folder)
        except ToolFailure as failure:
            if isinstance(failure.__cause__, FileNotFoundError):
                return None
            raise

    def is_replaceable(self, found: os.stat_result) -> bool:
        """Return whether the modes allow to replace this file, whose stat result is `found`, by a new one. Otherwise it
        is written in place."""
        with self._os_errors_explained(), self._open_parent() as folder:
            above = os.fstat(folder)
            user = os.geteuid()
            own = user in (0, found.st_uid, above.st_uid) or not above.st_mode & stat.S_ISVTX
            return own and os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True)

    def write_atomically(self, data: bytes, *, mode: int | None = None, durable: bool = True) -> bool:
        """Replace the whole file atomically, creating folders above it. Returns True if it did not exist before.

        An old file passes on its mode and owner; a new one gets the folder's owner. Without `durable`, for data that
        can be written again, the file may be missing or empty after a power failure.
        """
        with self._os_errors_explained(), self._open_parent(make=True) as folder:
            old = self._stat(folder)
            if old is not None:
                self._require_file(old)
            try:
                self._replace(folder, data, old, mode, durable=durable)
            except OSError as error:
                # A mount point cannot be replaced, nor a file whose folder takes no new ones.
                if old is None or error.errno not in NOT_REPLACEABLE:
                    raise
                if old.st_nlink > 1 and error.errno in (errno.EACCES, errno.EPERM):  # another link may be a backup
                    text = f"{self.shown} has more than one hard link; make its folder writable, to replace it"
                    raise ToolFailure(text, kind="invalid") from error
                self._overwrite(folder, data, durable=durable)
            if durable:
                _fsync_folder(folder)
        return old is None

    @contextmanager
    def incoming(self) -> Generator[IncomingFile]:
        """Make a file beside this one, for content that comes in pieces. Unless it takes this one's place by `commit`
        it is deleted at the end of the block."""
        with self._os_errors_explained(), self._open_parent(make=True) as folder:
            temporary, file = _create_temporary(folder)
            try:
                with file:
                    yield IncomingFile(file, partial(self._commit, folder, temporary, file))
            finally:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)

    def _commit(self, folder: int, temporary: str, file: BinaryIO) -> bool:
        """Put a whole file in the place of the old one. Returns True if there was none."""
        with self._os_errors_explained():
            old = self._stat(folder)
            if old is not None:
                self._require_file(old)
            self._publish(folder, temporary, file, old, None, durable=True)
            _fsync_folder(folder)
            return old is None

    def _replace(
        self, folder: int, data: bytes, old: os.stat_result | None, mode: int | None, *, durable: bool
    ) -> None:
        """Write a new file and put it in place of the old one."""
        temporary, file = _create_temporary(folder)
        try:
            with file:
                file.write(data)
                self._publish(folder, temporary, file, old, mode, durable=durable)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def _publish(
        self,
        folder: int,
        temporary: str,
        file: BinaryIO,
        old: os.stat_result | None,
        mode: int | None,
        *,
        durable: bool,
    ) -> None:
        """Give a written file its mode and owner, and its name."""
        file.flush()
        inherited = stat.S_IMODE(old.st_mode) & 0o777 if old else MODE
        _set_mode_and_owner(file.fileno(), old or os.fstat(folder), inherited if mode is None else mode)
        if durable:
            os.fsync(file.fileno())
        os.rename(temporary, self.path.name, src_dir_fd=folder, dst_dir_fd=folder)

    def _overwrite(self, folder: int, data: bytes, *, durable: bool) -> None:
        """Write into the file that is there, which keeps its mode and owner. A reader may see half of the content."""
        descriptor = os.open(self.path.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(descriptor, "wb") as file:
            self._require_file(os.fstat(descriptor))
            file.write(data)
            file.truncate()
            file.flush()
            if durable:
                os.fsync(descriptor)

    def append(self, data: bytes, *, head: bytes = b"", max_bytes: int) -> bool:
        """Append to a file in one write; a new file begins with `head`. Returns False, and writes nothing, if the file
        would exceed `max_bytes`. A last line that a crash cut off is ended first."""
        with self._os_errors_explained(), self._open_parent(make=True) as folder:
            descriptor, new = _open_to_append(self.path.name, folder)
            try:
                found = os.fstat(descriptor)
                self._require_file(found)
                if found.st_nlink != 1:  # another link may be anywhere
                    raise ToolFailure(
                        f"{self.shown} has more than one hard link and cannot be appended to; copy it to a new file",
                        kind="invalid",
                    )
                if new:
                    _set_mode_and_owner(descriptor, os.fstat(folder), MODE)
                torn = found.st_size > 0 and os.pread(descriptor, 1, found.st_size - 1) != b"\n"
                whole = (b"\n" if torn else b"" if found.st_size else head) + data
                if found.st_size + len(whole) > max_bytes:
                    return False
                if os.write(descriptor, whole) < len(whole):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)
        return True

    def link(self, to: SafePath) -> None:
        """Create a hard link to the file. If the file system does not support that, the ToolFailure's cause says so."""
        with self._os_errors_explained(), self._open_parent() as here, to._open_parent(make=True) as there:
            os.link(self.path.name, to.path.name, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)
            try:
                self._require_file(os.stat(to.path.name, dir_fd=there, follow_symlinks=False))
            except ToolFailure:  # it was replaced by something else meanwhile
                os.unlink(to.path.name, dir_fd=there)
                raise

    def remove(self, *, durable: bool = True) -> None:
        """Delete the file."""
        with self._os_errors_explained(), self._open_parent() as folder:
            found = self._stat(folder)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self._require_file(found)
            os.unlink(self.path.name, dir_fd=folder)
            if durable:
                _fsync_folder(folder)

    def remove_if_empty(self) -> bool:
        """Delete the folder if it is empty. Returns whether it was deleted."""
        try:
            with self._open_parent() as above:
                os.rmdir(self.path.name, dir_fd=above)
        except (ToolFailure, OSError):
            return False
        return True

    def _stat(self, folder: int) -> os.stat_result | None:
        try:
            return os.stat(self.path.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _require_file(self, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise ToolFailure(f"{self.shown} is a folder; name a file in it", kind="invalid")
        if not stat.S_ISREG(found.st_mode):
            raise ToolFailure(f"{self.shown} is not a regular file", kind="invalid")

    def _require_readable_by_owner(self, found: os.stat_result) -> None:
        """Refuse a file with several links that commands may not read: it may be any file of the machine."""
        if found.st_uid != os.stat(self.root).st_uid and not found.st_mode & stat.S_IROTH:
            text = f"{self.shown} is a hard link to a file of another user; replace it by a copy"
            raise ToolFailure(text, kind="denied")

    @contextmanager
    def _open_parent(self, *, make: bool = False) -> Generator[int]:
        """Open the parent folder step by step from the root and yield its descriptor."""
        if self.path == self.root:
            raise ToolFailure(f"{self.shown} is a folder; name a file in it", kind="invalid")
        with self._open_below(self._relative_parts()[:-1], make=make) as here:
            yield here

    @contextmanager
    def _open_for_listing(self) -> Generator[int]:
        """Open this folder for listing and yield its descriptor."""
        with self._open_below(self._relative_parts()) as here:
            folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
            try:
                yield folder
            finally:
                os.close(folder)

    def _relative_parts(self) -> tuple[str, ...]:
        """Return the path's parts below the root. This is faster than `relative_to`, which takes longer than opening
        them."""
        root = self.root.parts
        path = self.path.parts
        if path[: len(root)] != root:
            raise ValueError(f"{self.path} is not below {self.root}")
        return path[len(root) :]

    @contextmanager
    def _open_below(self, parts: Sequence[str], *, make: bool = False) -> Generator[int]:
        here = os.open(self.root, FOLDER)
        try:
            for part in parts:
                below = _open_subfolder(here, part, make=make)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    @contextmanager
    def _os_errors_explained(self) -> Generator[None]:
        """Convert system errors to failures that name the path and a remedy."""
        try:
            yield
        except FileNotFoundError as error:
            raise ToolFailure(f"{self.shown} does not exist; look for it with glob", kind="invalid") from error
        except NotADirectoryError as error:
            raise ToolFailure(f"a part of {self.shown} is not a folder", kind="invalid") from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ToolFailure(f"{self.shown} became a link while it was opened", kind="denied") from error
            if error.errno == errno.EBUSY:
                text = f"{self.shown} is a mount point, which cannot be moved or deleted; mount its folder instead"
                raise ToolFailure(text, kind="unavailable") from error
            raise ToolFailure(f"{self.shown}: {error.strerror or error}") from error


def write_atomically(path: Path, data: bytes) -> bool:
    """Replace a whole file atomically, in a folder that commands cannot replace. Returns True if it did not exist."""
    return SafePath(path.parent, path, str(path)).write_atomically(data)


def create_output_file(folder: Path, suffix: str) -> BinaryIO:
    """Create a file with an unpredictable name, readable by the owner of the folder. Its `name` is the path."""
    path = folder / f"output-{secrets.token_hex(6)}{suffix}"
    descriptor = os.open(path, CREATE, 0o600)
    _set_mode_and_owner(descriptor, folder.stat(), MODE)
    # Opened with its path so that the file object has it as name; the path itself is not opened again.
    return open(path, "wb", opener=lambda _name, _flags: descriptor)


def _create_temporary(folder: int) -> tuple[str, BinaryIO]:
    """Create a file that only the server reads until it is whole. Returns its name and the file."""
    name = f".tmp-{secrets.token_hex(8)}"
    return name, os.fdopen(os.open(name, CREATE, 0o600, dir_fd=folder), "wb")


def _open_subfolder(folder: int, name: str, *, make: bool) -> int:
    """Open a folder inside a folder. A missing one is created if `make` is set."""
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=folder)
    below = os.open(name, FOLDER, dir_fd=folder)
    owner = os.fstat(folder)
    if os.geteuid() == 0:
        os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)
    return below


def _stat_all(names: Iterable[str], folder: int) -> list[tuple[str, os.stat_result]]:
    found: list[tuple[str, os.stat_result]] = []
    for name in names:
        with suppress(OSError):  # deleted meanwhile
            found.append((name, os.stat(name, dir_fd=folder, follow_symlinks=False)))
    return found


def _open_to_append(name: str, folder: int) -> tuple[int, bool]:
    """Return a descriptor of the file, and whether it is new."""
    with suppress(FileExistsError):
        return os.open(name, APPEND | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder), True
    return os.open(name, APPEND, dir_fd=folder), False


def _set_mode_and_owner(descriptor: int, model: os.stat_result, mode: int) -> None:
    """Set the mode of a new file and, where the server is allowed to, its owner."""
    os.fchmod(descriptor, mode)
    if os.geteuid() == 0:
        os.fchown(descriptor, model.st_uid, model.st_gid)


def _fsync_folder(folder: int) -> None:
    """Make renames in a folder durable."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
