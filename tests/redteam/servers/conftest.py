"""Servers under a memory limit, for attacks over real sockets. Answers to others are timed: nothing may run beside."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.fixture(autouse=True, scope="session")
def _arena() -> None:
    """Override the arena's check: these attacks need neither root nor namespaces."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and of no other."""
    for item in items:
        if item.path.parent == FOLDER:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.machine)
