from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.host.vsock.guest import Guest


@pytest.fixture
def guest() -> Iterator[Guest]:
    from tests.unit.host.vsock.guest import Guest

    with tempfile.TemporaryDirectory(prefix="v") as folder:
        made = Guest(Path(folder))
        made.boot()
        yield made
        made.close()
