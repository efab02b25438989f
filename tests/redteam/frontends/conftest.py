"""The bots under attack: one world for all tests of this folder, because each uses people and chats of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .world import World, living


@pytest.fixture(autouse=True, scope="session")
def _arena() -> None:
    """No attack on a bot needs a container: all that is attacked is on the loopback and in a folder of the test's."""


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with living(tmp_path_factory.mktemp("bots")) as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    shared_world.model()
    yield shared_world
    assert shared_world.process.returncode is None, shared_world.log[-3000:]
    assert not shared_world.telegram.violations
    assert not shared_world.discord.violations
