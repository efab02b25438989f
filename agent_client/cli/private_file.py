"""Files that only their owner can read."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import CliError


@contextmanager
def new_private_file(path: Path) -> Generator[BinaryIO]:
    """Give a new file; it is removed if the body of the `with` fails. Raises CliError if there is one already."""
    try:
        file = open(path, "xb", opener=private)  # noqa: SIM115  the `with` is below
    except OSError as error:
        raise CliError(f"{path}: cannot be written: {error.strerror}", "name a file that does not exist") from error
    try:
        with file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def replace_private_file(path: Path, text: str) -> None:
    """Put a whole file in the place of another: a process that dies meanwhile leaves the old one or the new one. One
    at a time may do so. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)  # of a process that died, and so of any mode
    with open(new, "x", encoding="utf-8", opener=private) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def private(path: str, flags: int) -> int:
    """Open a file as `open(..., opener=private)` does: made for its owner alone, and not through a link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
