from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from .host import Host


@pytest.fixture
def host() -> Iterator[Host]:
    """In a folder of its own: a socket's path must be short."""
    with TemporaryDirectory(prefix="med") as folder, Host(Path(folder)) as host:
        yield host
