"""MCP servers that the host calls with its own credential, for an agent that has none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_runtime.connectors.config.config import ConfigFaults, parse_servers
from agent_testing import LiveProcess
from tests.integration.host.live import Host
from tests.ports import free_port

from .conftest import HERE, Grow

CATALOG = """
secrets:
  mcp: {{file: token.txt}}
services:
  guarded:
    base_url: {url}
    private: true
    credential: {{header: Authorization, secret: mcp}}
    methods: [GET, POST, DELETE]
    paths: [/mcp]
"""
TOKEN = "access-1"


@pytest.fixture(scope="module")
def world(processes: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, str]]:
    """A host with the service of a server that wants a token; and the server's own URL."""
    url = f"http://127.0.0.1:{free_port()}"
    argv = [sys.executable, HERE / "stand_in.py", url.rpartition(":")[2]]
    processes.enter_context(LiveProcess(argv, ready_url=f"{url}/counts"))
    folder: Path = tmp_path_factory.mktemp("services")
    (folder / "token.txt").write_text(f"{TOKEN}\n")
    (folder / "services.yaml").write_text(CATALOG.format(url=url))
    with Host(folder / "data", MESH_SERVICES=folder / "services.yaml") as host:
        yield host, url


async def change(url: str, state: dict[str, Any] | None = None) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        (await client.post(url, json=state)).raise_for_status()


@pytest.mark.slow
async def test_the_host_adds_the_credential_of_a_server(grow: Grow, world: tuple[Host, str]) -> None:
    host, url = world
    ground = {"mesh_url": host.url, "egress_token": host.token("ada")}
    plant = grow(ground=ground, guarded={"service": "guarded", "path": "/mcp"}, other={"service": "none"})
    await plant.prepare()
    assert plant.state("guarded").error is None
    assert await plant.value("guarded_hello", name="Ada") == "hello Ada"
    assert "404" in plant.state("other").error
    assert "unknown_service" in plant.state("other").error
    await change(f"{url}/set", {"access": "another"})
    assert "refused our credentials" in await plant.error("guarded_hello", name="Ada")
    await change(f"{url}/reset")


async def test_without_a_host_a_service_cannot_be_used(grow: Grow) -> None:
    plant = grow(guarded={"service": "guarded"})
    await plant.prepare()
    assert "set AGENT_MESH_URL" in plant.state("guarded").error


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"service": "a", "url": "http://x/mcp"}, "give exactly one of command"),
    ({"service": "../up"}, "service: must be the name of a service"),
    ({"service": "a", "path": "mcp"}, "path: must be a path that begins with /"),
    ({"service": "a", "path": "/a b"}, "path: must be a path that begins with /"),
    ({"service": "a", "headers": {"Authorization": "x"}}, "leave out Authorization, which the host sets"),
    ({"service": "a", "write": True}, "write: not for a server with service"),
    ({"url": "http://x/mcp", "path": "/b"}, "path: not for a server with url"),
    ({"service": "a", "type": "stdio"}, "type: stdio needs command"),
]


@pytest.mark.parametrize(("about", "fault"), FAULTS)
def test_wrong_fields_are_named(tmp_path: Path, about: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigFaults) as caught:
        parse_servers({"mcpServers": {"one": about}}, tmp_path, {})
    assert fault in str(caught.value)


def test_a_service_may_have_a_type(tmp_path: Path) -> None:
    (server,) = parse_servers({"mcpServers": {"one": {"service": "a", "type": "http"}}}, tmp_path, {})
    assert (server.target.url, server.target.service) == ("/", "a")  # pyright: ignore[reportAttributeAccessIssue]
