"""The bytes of artifacts: one file for each version, in one folder.

A file gets its name when all of it is on the disk, and its row after that; it goes after its row. So whatever kills the
host leaves files without rows, which the next start removes, and never a row without its file.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from agent_common import disk

_FILE = re.compile(r"art_[0-9a-f]{32}(?:\.part)?")
_PART = ".part"
_AT_ONCE = 500


def new_file_name() -> str:
    """Return the name of a file that does not exist."""
    return f"art_{secrets.token_hex(16)}"


class ArtifactFiles:
    """The folder. Its methods block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        disk.sync(self._folder.parent)

    def create(self, name: str) -> BinaryIO:
        """Open a new file under a name that shows that it is not whole yet."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.fdopen(os.open(self._folder / f"{name}{_PART}", flags, 0o600), "wb")

    def keep(self, file: BinaryIO, name: str) -> None:
        """Bring the whole file to the disk under its name."""
        file.flush()
        os.fsync(file.fileno())
        (self._folder / f"{name}{_PART}").rename(self._folder / name)
        disk.sync(self._folder)

    def open(self, name: str) -> BinaryIO:
        """Open a file to read it. Raises FileNotFoundError."""
        return (self._folder / name).open("rb")

    def remove(self, names: list[str]) -> None:
        """Remove files, whole or not, that no row names."""
        for name in names:
            for suffix in ("", _PART):
                (self._folder / f"{name}{suffix}").unlink(missing_ok=True)

    def batches(self) -> Iterator[list[str]]:
        """Yield the names of all files, some at a time."""
        with os.scandir(self._folder) as found:
            names = (one.name for one in found if _FILE.fullmatch(one.name))
            while batch := list(islice(names, _AT_ONCE)):
                yield batch
