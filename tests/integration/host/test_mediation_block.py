"""A workspace's `mediation` block, and `mediationReady` in the words of microagent's supervisor."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.ports import free_port

from .live import Host, assert_problem

NOT_READY = "required mediation is not ready"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("mesh")) as host:
        yield host


def made(host: Host, name: str, mediation: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    block = {} if mediation is None else {"mediation": mediation}
    reply = host.operator.post("/workspaces", json={"id": name, **block, **more})
    assert reply.status_code == 201, reply.text
    return reply.json()


def required_of(host: Host, name: str) -> str | None:
    """AGENT_MEDIATION_REQUIRED as the workspace's runtime was given it."""
    environments = [child.environ() for child in psutil.Process(host.process.pid).children(recursive=True)]
    return next(one for one in environments if one.get("AGENT_ID") == name).get("AGENT_MEDIATION_REQUIRED")


def test_the_guides_block_makes_a_required_channel(host: Host) -> None:
    port = free_port()
    block = {"enabled": True, "required": True, "port": 2048, "target": f"127.0.0.1:{port}", "failClosed": True}
    workspace = made(host, "a", block)
    assert workspace["mediation_url"] == f"tcp://127.0.0.1:{port}"
    ready = workspace["mediationReady"]
    declared = f"mediation required=true failClosed=true port=2048 target=127.0.0.1:{port}; "
    assert (ready["ready"], ready["error"], ready["code"]) == (False, NOT_READY, "not_running")
    assert ready["detail"].startswith(declared), ready
    assert host.operator.post("/workspaces/a/start").status_code == 200
    ready = host.operator.get("/workspaces/a").json()["mediationReady"]
    assert (ready["ready"], ready["error"], ready["code"]) == (True, None, None), ready
    assert ready["detail"].startswith(f"{declared}mediation target reachable"), ready
    assert required_of(host, "a") == "true"


def test_a_block_that_says_nothing_is_required_and_fails_closed(host: Host) -> None:
    ready = made(host, "b", {})["mediationReady"]
    assert ready["detail"].startswith("mediation required=true failClosed=true port=2048 target=127.0.0.1:"), ready
    assert ready["error"] == NOT_READY


@pytest.mark.parametrize("block", [{"required": False}, {"required": False, "failClosed": False}, None])
def test_an_optional_channel_is_not_ready_without_an_error(host: Host, block: dict[str, Any] | None) -> None:
    """Without a block the channel of a process is optional, as it ever was."""
    name = f"c{abs(hash(str(block))) % 100_000}"
    ready = made(host, name, block)["mediationReady"]
    assert (ready["ready"], ready["error"], ready["code"]) == (False, None, "not_running")
    assert ready["detail"].startswith("mediation required=false failClosed=false port=2048 target="), ready


def test_an_optional_channel_leaves_its_agent_free(host: Host) -> None:
    made(host, "o", {"required": False})
    assert host.operator.post("/workspaces/o/start").status_code == 200
    assert required_of(host, "o") is None


@pytest.mark.slow
def test_a_target_that_nobody_listens_at_is_told_in_the_guides_words(host: Host) -> None:
    port = free_port()
    made(host, "u", {"target": f"127.0.0.1:{port}"}, driver="external")
    host.operator.post("/workspaces/u/start")
    with socket.socket() as taken:
        host.process.kill9()
        taken.bind(("127.0.0.1", port))  # bound, and nobody listens
        host.start()
        ready = host.operator.get("/workspaces/u").json()["mediationReady"]
    declared = f"mediation required=true failClosed=true port=2048 target=127.0.0.1:{port}; "
    assert ready["detail"].startswith(f"{declared}mediation target unreachable"), ready
    assert ready["error"] == "required mediation target is unreachable"
    assert (ready["ready"], ready["code"]) == (False, "target_unreachable")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"mediation": {"required": True, "failClosed": False}}, "failClosed"),
        ({"mediation": {"required": False, "failClosed": True}}, "failClosed"),
        ({"mediation": {"enabled": False}}, "enabled"),
        ({"mediation": {"port": 99}}, "port"),
        ({"mediation": {"target": "nonsense"}}, "target"),
        ({"mediation": {"target": "127.0.0.1:1"}, "listen": "tcp://127.0.0.1:2"}, "target"),
        ({"mediation": {"colour": "red"}}, "colour"),
    ],
)
def test_a_block_that_cannot_be_kept_is_refused_by_field(host: Host, body: dict[str, Any], named: str) -> None:
    problem = assert_problem(host.operator.post("/workspaces", json={"id": "x", **body}), 422, "invalid_request")
    assert f"mediation.{named}" in json.dumps(problem), problem
