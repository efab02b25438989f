"""Both loopback addresses answer by default: `localhost` may be either of them."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from agent_testing import LiveProcess, ScriptedProvider

from ..conftest import Start


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


pytestmark = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no ::1")


def answers(address: str, port: int) -> bool:
    try:
        return httpx.get(f"http://{address}:{port}/healthz", trust_env=False, timeout=20).is_success
    except httpx.ConnectError:
        return False


@pytest.mark.parametrize(
    ("settings", "both"), [({}, True), ({"AGENT_HOST": "localhost"}, True), ({"AGENT_HOST": "127.0.0.1"}, False)]
)
def test_a_runtime(start: Start, settings: dict[str, str], both: bool) -> None:
    port = urlsplit(start(**settings).url).port or 0
    assert answers("127.0.0.1", port)
    assert answers("[::1]", port) is both


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "both"), [({}, True), ({"MESH_HOST": "localhost"}, True), ({"MESH_HOST": "127.0.0.1"}, False)]
)
def test_a_host(tmp_path: Path, settings: dict[str, str], both: bool) -> None:
    with ScriptedProvider() as provider:
        env = {"MESH_PORT": "0", "MESH_DATA_DIR": str(tmp_path), "OPENAI_BASE_URL": provider.url, **settings}
        env |= {"MESH_LISTENER_URL": "off"}
        with LiveProcess([sys.executable, "-m", "agent_host", "up"], env) as host:
            port = int(host.wait_for_output(r"listens on http://[^ :]+:(\d+)", 60)[1])
            assert answers("127.0.0.1", port)
            assert answers("[::1]", port) is both


def test_a_port_that_another_program_has_on_the_other_address_is_left_to_it(start: Start) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        agent = start(AGENT_PORT=str(port))
        assert answers("127.0.0.1", port)
        assert urlsplit(agent.url).port == port
