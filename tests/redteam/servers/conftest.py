"""Servers under a memory limit, for attacks on them over real sockets."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _arena() -> None:
    """Override the arena's check: these attacks need neither root nor namespaces."""
