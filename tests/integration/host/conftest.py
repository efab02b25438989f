"""The host that most tests share, with a scripted provider behind it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from agent_testing import ScriptedProvider
from tests.measured import MEASURED

from .live import Host, catalog

Shared = tuple[Host, ScriptedProvider, str]


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("mesh")
    with (
        ScriptedProvider(models=("big-1", "vectors-1")) as provider,
        Host(
            folder / "data",
            MESH_MODELS=catalog(folder, provider),
            UPSTREAM_KEY="sk-upstream",
            MESH_UPSTREAM_IDLE_TIMEOUT=1,
            MESH_STOP_GRACE=2,
            **MEASURED,
        ) as host,
    ):
        yield host, provider, host.token("writer")


@pytest.fixture
def host(_shared: Shared) -> Host:
    return _shared[0]


@pytest.fixture
def provider(_shared: Shared) -> Iterator[ScriptedProvider]:
    """The model behind the shared host, with nothing in its memory and no script."""
    _, provider, _ = _shared
    provider.script.replace(None)
    provider.clear()
    yield provider
    provider.release()


@pytest.fixture
def token(_shared: Shared) -> str:
    """The token of the agent `writer`."""
    return _shared[2]


@pytest.fixture
def agent(host: Host, token: str) -> Iterator[httpx.Client]:
    """The agent `writer`."""
    with host.client(token) as client:
        yield client
