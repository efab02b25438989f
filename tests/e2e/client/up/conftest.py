"""Fresh machines. What they have started is stopped at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    tmp_path.chmod(0o755)
    machine = Machine(tmp_path)
    yield machine
    machine.down()


@pytest.fixture(scope="module")
def shared_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine on which a host and an agent run, for the tests of a module."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.up()
    yield machine
    machine.down()
