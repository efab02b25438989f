"""One world for the chats of all people, and one of its own for each storm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_testing import Say

from .chats import Chat, echo
from .phones import DiscordPhone, TelegramPhone
from .world import OTHER, WORKSPACE, World

PEOPLE = 12
"""On each platform: every test has a person of its own."""


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


@pytest.fixture(scope="module")
def _chats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Iterator[Chat]]]:
    with World(tmp_path_factory.mktemp("world"), workspaces=[WORKSPACE, OTHER]) as world:
        chats = {
            "telegram": [Chat(world, TelegramPhone(world.telegram, f"Ann {number}")) for number in range(PEOPLE)],
            "discord": [Chat(world, DiscordPhone(world.discord, f"ann{number}")) for number in range(PEOPLE)],
        }
        world.configure([chat.phone.name for every in chats.values() for chat in every])
        world.start_bots()
        world.wait_until_connected()
        yield {platform: iter(every) for platform, every in chats.items()}
        assert world.telegram.violations == []
        assert world.discord.violations == []


@pytest.fixture(params=["telegram", "discord"])
def chat(request: pytest.FixtureRequest, _chats: dict[str, Iterator[Chat]]) -> Iterator[Chat]:
    """The private chat of a person on each platform, who is paired and has not written yet. The model is an echo."""
    chat = next(_chats[request.param])
    chat.world.provider.script.replace(echo)
    chat.world.provider.clear()
    yield chat
    chat.world.provider.release()
