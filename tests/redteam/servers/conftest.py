"""Attacks over real sockets on servers under the smallest memory that they are promised to survive. Answers to others
are timed: nothing may run beside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.live import SERVE, Runtime
from tests.integration.host.live import UP, Host
from tests.memory_limit import GUEST_MIB, HOST_MIB, limited

FOLDER = Path(__file__).parent


@pytest.fixture(autouse=True, scope="session")
def _arena() -> None:
    """Override the arena's check: these attacks need neither root nor namespaces."""


@pytest.fixture(autouse=True, scope="module")
def _small_machines() -> Iterator[None]:
    """Limit every guest and every host of this folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runtime, "command", limited(SERVE, GUEST_MIB))
        patch.setattr(Host, "command", limited(UP, HOST_MIB))
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and of no other."""
    for item in items:
        if item.path.parent == FOLDER:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.machine)
