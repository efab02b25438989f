from __future__ import annotations

from pathlib import Path

import pytest

from .shelves import Ground


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path.resolve())
