"""A checked path, and the only ways to touch it.

Commands of the model share these folders with the server, which may be root. So nothing is opened by its full name:
each folder is opened from the one above it, and a link on the way is refused. A link that was there when the path was
resolved has been followed and checked; one that appears afterwards is somebody's trick.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import os
import secrets
import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import ToolFailure

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MODE = 0o644


@dataclass(frozen=True, slots=True)
class SafePath:
    """A path inside a root. All methods raise ToolFailure with a text that the model can act on."""

    root: Path
    """A folder that commands cannot replace."""
    path: Path
    """Absolute, and free of links when it was resolved."""
    shown: str
    """The name under which the model knows it."""

    @contextmanager
    def open(self) -> Generator[BinaryIO]:
        """The file's bytes. Folders, pipes and devices are refused."""
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
        """What lies in this folder, in no order: each name with what it is, links as links. At most so many; and
        whether that is all."""
        with self._os_errors_explained(), self._open_for_listing() as folder, os.scandir(folder) as found:
            names = [entry.name for entry in itertools.islice(found, limit + 1)]
            return _stat_all(names[:limit], folder), len(names) <= limit

    def page(self, after: bytes, limit: int) -> list[tuple[str, os.stat_result]]:
        """The same in the order of their bytes, from behind a name on. However much lies here, it takes no more memory
        than the page does."""
        with self._os_errors_explained(), self._open_for_listing() as folder, os.scandir(folder) as found:
            names = (entry.name for entry in found if os.fsencode(entry.name) > after)
            return _stat_all(heapq.nsmallest(limit, names, key=os.fsencode), folder)

    def lstat(self) -> os.stat_result | None:
        """What lies here, a link as a link; none when nothing does."""
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

    def write_atomically(self, data: bytes, *, mode: int | None = None, durable: bool = True) -> bool:
        """Puts the whole file in place at once, making folders on the way; true when there was none before.

        An old file hands down its mode and owner, else the folder its owner. What could be written again need not be
        `durable`: after a power cut it may be missing or empty.
        """
        with self._os_errors_explained(), self._open_parent(make=True) as folder:
            old = self._stat(folder)
            if old is not None:
                self._require_file(old)
            temporary = f".tmp-{secrets.token_hex(8)}"
            try:
                with os.fdopen(os.open(temporary, CREATE, 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                    file.flush()
                    inherited = stat.S_IMODE(old.st_mode) & 0o777 if old else MODE
                    _set_mode_and_owner(file.fileno(), old or os.fstat(folder), inherited if mode is None else mode)
                    if durable:
                        os.fsync(file.fileno())
                os.rename(temporary, self.path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            if durable:
                _fsync_folder(folder)
        return old is None

    def append(self, data: bytes, *, head: bytes = b"", max_bytes: int) -> bool:
        """Adds to the end of a file in one write; a new one begins with `head`. False, and nothing is written, when it
        would come to more than so many bytes. A last line that was torn by a crash is ended first."""
        with self._os_errors_explained(), self._open_parent(make=True) as folder:
            descriptor, new = _open_to_append(self.path.name, folder)
            try:
                found = os.fstat(descriptor)
                self._require_file(found)
                if found.st_nlink != 1:  # its other name may lie anywhere
                    raise ToolFailure(f"{self.shown} has a second name; move it away", kind="invalid")
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
        """Gives the file a second name. Where the file system knows no such thing the cause of the ToolFailure says
        so."""
        with self._os_errors_explained(), self._open_parent() as here, to._open_parent(make=True) as there:
            os.link(self.path.name, to.path.name, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)
            try:
                self._require_file(os.stat(to.path.name, dir_fd=there, follow_symlinks=False))
            except ToolFailure:  # it was something else by then
                os.unlink(to.path.name, dir_fd=there)
                raise

    def remove(self, *, durable: bool = True) -> None:
        """Deletes the file."""
        with self._os_errors_explained(), self._open_parent() as folder:
            found = self._stat(folder)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self._require_file(found)
            os.unlink(self.path.name, dir_fd=folder)
            if durable:
                _fsync_folder(folder)

    def remove_if_empty(self) -> bool:
        """Deletes a folder in which nothing is left; whether it is gone."""
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
        """A file with a second name may be any file of the machine: only what commands may read is read for them."""
        if found.st_uid != os.stat(self.root).st_uid and not found.st_mode & stat.S_IROTH:
            text = f"{self.shown} is a hard link to a file of another user; replace it by a copy"
            raise ToolFailure(text, kind="denied")

    @contextmanager
    def _open_parent(self, *, make: bool = False) -> Generator[int]:
        """A descriptor of the folder that the file is in, reached step by step from the root."""
        if self.path == self.root:
            raise ToolFailure(f"{self.shown} is a folder; name a file in it", kind="invalid")
        with self._open_below(self._relative_parts()[:-1], make=make) as here:
            yield here

    @contextmanager
    def _open_for_listing(self) -> Generator[int]:
        """A descriptor of this folder that can be read."""
        with self._open_below(self._relative_parts()) as here:
            folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
            try:
                yield folder
            finally:
                os.close(folder)

    def _relative_parts(self) -> tuple[str, ...]:
        """The names on the way from the root. `relative_to` takes longer than to open them does."""
        root, path = self.root.parts, self.path.parts
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
        """System errors as failures that name the path and the way out."""
        try:
            yield
        except FileNotFoundError as error:
            raise ToolFailure(f"{self.shown} does not exist; look for it with glob", kind="invalid") from error
        except NotADirectoryError as error:
            raise ToolFailure(f"a part of {self.shown} is not a folder", kind="invalid") from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ToolFailure(f"{self.shown} turned into a link while it was opened", kind="denied") from error
            raise ToolFailure(f"{self.shown}: {error.strerror or error}") from error


def write_atomically(path: Path, data: bytes) -> bool:
    """Puts a whole file in place at once, in a folder that commands cannot replace. True when there was none before."""
    return SafePath(path.parent, path, str(path)).write_atomically(data)


def create_output_file(folder: Path, suffix: str) -> BinaryIO:
    """A new file under a name that nobody can foresee, for the owner of the folder to read; its `name` is the path."""
    path = folder / f"output-{secrets.token_hex(6)}{suffix}"
    descriptor = os.open(path, CREATE, 0o600)
    _set_mode_and_owner(descriptor, folder.stat(), MODE)
    # Opened by its name, so that the file knows it: the name is not used again.
    return open(path, "wb", opener=lambda _name, _flags: descriptor)


def _open_subfolder(folder: int, name: str, *, make: bool) -> int:
    """Opens a folder inside a folder, made first if it is missing and may be."""
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
        with suppress(OSError):  # it has gone since
            found.append((name, os.stat(name, dir_fd=folder, follow_symlinks=False)))
    return found


def _open_to_append(name: str, folder: int) -> tuple[int, bool]:
    """A descriptor of the file, and whether it is new."""
    with suppress(FileExistsError):
        return os.open(name, APPEND | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder), True
    return os.open(name, APPEND, dir_fd=folder), False


def _set_mode_and_owner(descriptor: int, model: os.stat_result, mode: int) -> None:
    """Gives a new file its mode, and the owner of another one where the server may."""
    os.fchmod(descriptor, mode)
    if os.geteuid() == 0:
        os.fchown(descriptor, model.st_uid, model.st_gid)


def _fsync_folder(folder: int) -> None:
    """Makes the renaming itself durable."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
