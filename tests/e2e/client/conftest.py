"""Clients of the shared runtime and of a host with one agent, straight and through a bridge that breaks connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_client import Agent
from agent_client.sync import SyncMesh
from agent_testing import FakeBridge, Say, ScriptedProvider
from tests.integration.host.live import OPERATOR, Host, catalog

from ..live import TOKEN, Runtime


@pytest.fixture
async def client(agent: Runtime) -> AsyncIterator[Agent]:
    async with Agent(agent.url, TOKEN) as client:
        yield client


@pytest.fixture
async def bridge(agent: Runtime) -> AsyncIterator[FakeBridge]:
    async with bridge_to(agent) as bridge:
        yield bridge


@pytest.fixture
async def through(bridge: FakeBridge) -> AsyncIterator[Agent]:
    """A client whose every byte passes the bridge."""
    async with through_bridge(bridge) as client:
        yield client


@dataclass(frozen=True, slots=True)
class World:
    host: Host
    provider: ScriptedProvider


@pytest.fixture(scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("mesh")
    settings = {"UPSTREAM_KEY": "sk-1", "MESH_STOP_GRACE": 2, "MESH_RESTART": "false"}
    with (
        ScriptedProvider() as provider,
        Host(folder / "data", MESH_MODELS=catalog(folder, provider), **settings) as host,
        SyncMesh(host.url, OPERATOR) as mesh,
    ):
        mesh.workspaces.create("ada", team="counting")
        assert mesh.workspaces.start("ada").state == "running"
        yield World(host, provider)


@pytest.fixture
def world(_world: World) -> Iterator[World]:
    _world.provider.script.replace(None, otherwise=Say("well said"))
    _world.provider.clear()
    yield _world
    _world.provider.release()


def bridge_to(server: Runtime | Host) -> FakeBridge:
    return FakeBridge("tcp://127.0.0.1:0", server.url.replace("http", "tcp"))


def through_bridge(bridge: FakeBridge, silence: float = 45.0) -> Agent:
    return Agent(bridge.url.replace("tcp", "http"), TOKEN, silence=silence)
