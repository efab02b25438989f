"""A checked path, and the only ways to touch it.

Commands of the model share these folders with the server, which may be root. So nothing is opened by its full name:
each folder is opened from the one above it, and a link on the way is refused. A link that was there when the path was
resolved has been followed and checked; one that appears afterwards is somebody's trick.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import ToolFailure

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MODE = 0o644


@dataclass(frozen=True, slots=True)
class Place:
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
        with self._explained(), self._folder() as folder:
            descriptor = os.open(self.path.name, READ, dir_fd=folder)
        try:
            self._only_file(os.fstat(descriptor))
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)

    def publish(self, data: bytes) -> bool:
        """Puts the whole file in place at once, making folders on the way; true when there was none before.

        An old file hands down its mode and owner, else the folder its owner.
        """
        with self._explained(), self._folder(make=True) as folder:
            old = self._stat(folder)
            if old is not None:
                self._only_file(old)
            temporary = f".tmp-{secrets.token_hex(8)}"
            try:
                with os.fdopen(os.open(temporary, CREATE, 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                    file.flush()
                    _adopt(file.fileno(), old or os.fstat(folder), stat.S_IMODE(old.st_mode) & 0o777 if old else MODE)
                    os.fsync(file.fileno())
                os.rename(temporary, self.path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            _settle(folder)
        return old is None

    def _stat(self, folder: int) -> os.stat_result | None:
        try:
            return os.stat(self.path.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _only_file(self, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise ToolFailure(f"{self.shown} is a folder; name a file in it", kind="invalid")
        if not stat.S_ISREG(found.st_mode):
            raise ToolFailure(f"{self.shown} is not a regular file", kind="invalid")

    @contextmanager
    def _folder(self, *, make: bool = False) -> Generator[int]:
        """A descriptor of the folder that the file is in, reached step by step from the root."""
        if self.path == self.root:
            raise ToolFailure(f"{self.shown} is a folder; name a file in it", kind="invalid")
        here = os.open(self.root, FOLDER)
        try:
            for part in self.path.relative_to(self.root).parent.parts:
                below = _step(here, part, make=make)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    @contextmanager
    def _explained(self) -> Generator[None]:
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


def publish(path: Path, data: bytes) -> bool:
    """Puts a whole file in place at once, in a folder that commands cannot replace. True when there was none before."""
    return Place(path.parent, path, str(path)).publish(data)


def new_file(folder: Path, suffix: str) -> BinaryIO:
    """A new file under a name that nobody can foresee, for the owner of the folder to read; its `name` is the path."""
    path = folder / f"output-{secrets.token_hex(6)}{suffix}"
    descriptor = os.open(path, CREATE, 0o600)
    _adopt(descriptor, folder.stat(), MODE)
    # Opened by its name, so that the file knows it: the name is not used again.
    return open(path, "wb", opener=lambda _name, _flags: descriptor)


def _step(folder: int, name: str, *, make: bool) -> int:
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


def _adopt(descriptor: int, model: os.stat_result, mode: int) -> None:
    """Gives a new file its mode, and the owner of another one where the server may."""
    os.fchmod(descriptor, mode)
    if os.geteuid() == 0:
        os.fchown(descriptor, model.st_uid, model.st_gid)


def _settle(folder: int) -> None:
    """Makes the renaming itself durable."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
