"""Files of the host's data folder that only their owner can read."""

from __future__ import annotations

from pathlib import Path

from ..errors import CliError
from ..private_file import replace_private_file


def keep_file(path: Path, text: str) -> None:
    """Put a whole file in the place of another, and make its folder. Raises CliError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_private_file(path, text)
    except OSError as error:
        raise CliError(f"{path}: cannot be written: {error.strerror}", "MESH_DATA_DIR names another folder") from error
