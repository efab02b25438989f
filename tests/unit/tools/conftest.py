from __future__ import annotations

from pathlib import Path

import pytest

from agent_runtime.ports import ToolContext

from . import doubles


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return doubles.context(tmp_path)
