"""Change the folder of plugins. No command can write there; an error says that only the folder's owner can."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_common import disk

from ...errors import ToolFailure

_TEMPORARY = re.compile(r"\.\w+\.py-[0-9a-f]{12}\.tmp")


def write_temporary(path: Path, data: bytes) -> Path:
    """Write a file durably next to its final path, under a name that is not a plugin's. Raises ToolFailure."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(6)}.tmp")
    try:
        with _explain_errors(), open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        discard(temporary)
        raise
    return temporary


def move(temporary: Path, path: Path) -> None:
    """Move a temporary file into its place, atomically and durably. Raises ToolFailure."""
    with _explain_errors():
        temporary.replace(path)
        disk.sync(path.parent)


def discard(temporary: Path) -> None:
    """Delete a temporary file, unless it has been moved."""
    with suppress(OSError):
        temporary.unlink()


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files of a server that crashed."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if _TEMPORARY.fullmatch(name):
                discard(folder / name)


def remove(path: Path) -> None:
    """Delete a file; a missing file is no error. Raises ToolFailure."""
    if path.is_dir():
        raise ToolFailure(
            f"{path.name} is a package; only the person who put it into the folder can remove it", kind="denied"
        )
    with _explain_errors(), suppress(FileNotFoundError):
        path.unlink()
        disk.sync(path.parent)


@contextmanager
def _explain_errors() -> Generator[None]:
    try:
        yield
    except OSError as error:
        text = f"the folder of skills cannot be written here ({error.strerror}): only its owner can change skills"
        raise ToolFailure(text, kind="unavailable") from error
