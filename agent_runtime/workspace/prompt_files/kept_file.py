"""A small file in the data folder that is only ever replaced as a whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from agent_common.telemetry import logger

log = logger(__name__)


def replace_file(file: Path, data: bytes) -> None:
    """Put this content in place of the old one, on disk when this returns. A fault is logged."""
    try:
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=file.name, delete=False) as new:
            new.write(data)
            new.flush()
            os.fsync(new.fileno())
        os.replace(new.name, file)
    except OSError as error:
        log.error("authors of instructions cannot be kept", path=str(file), error=str(error))
