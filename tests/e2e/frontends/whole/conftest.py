"""One world for the chats of all people, and one of its own for each storm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_testing import Say

from .world import World


@pytest.fixture(scope="module")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world")) as world:
        world.configure()
        world.start_bots()
        world.wait_until_connected()
        yield world


@pytest.fixture
def world(_running: World) -> World:
    """Start all processes; no person is paired."""
    _running.provider.script.replace(None, otherwise=Say("well said"))
    _running.provider.clear()
    return _running
