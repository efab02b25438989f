"""Whoever answers at the host's address without the workspace's key commands nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call
from tests.e2e.conftest import Start
from tests.e2e.live import Runtime

from .host import KEY, Host, Peer, request

GREETINGS: dict[str, dict[str, Any] | None] = {"none": None, "without-proof": {}, "wrong-proof": {"mac": "0" * 64}}


@pytest.fixture
def agent(start: Start, host: Host, tmp_path: Path) -> Runtime:
    key = tmp_path / "mediation.key"
    key.write_bytes(KEY + b"\n")
    return start(AGENT_MEDIATION_URL=host.url, AGENT_MEDIATION_REQUIRED="true", AGENT_MEDIATION_KEY_FILE=key)


def greet(peer: Peer, fields: dict[str, Any] | None, work: dict[str, Any]) -> None:
    """Send work after a greeting, in one piece: the agent hangs up as soon as it has read the first line."""
    peer.until(signal="ready")
    identity = {"workspace": "ws", "agent_id": "ws-1", "epoch": 1}
    welcome = {"ctl": "welcome", "v": 1, **identity, "heartbeat_s": 15, "max_line": 1 << 20}
    peer.send(*([] if fields is None else [{**welcome, **fields}]), work)


def test_a_host_without_the_key_gives_no_work(agent: Runtime, host: Host) -> None:
    agent.provider.script.replace([Call("write", {"path": "done.md", "content": "by a stranger"})])
    for name, fields in GREETINGS.items():
        peer = host.accept()
        greet(peer, fields, request(f"false-{name}"))
        while (frame := peer.line()) is not None:  # it hangs up
            assert frame.get("request_id") is None, frame
        assert agent.http.get("/readyz").status_code == 503
    assert [one.path for one in agent.provider.requests if one.method == "POST"] == []
    agent.provider.script.replace(None)
    peer = host.accept()
    peer.attach(epoch=7, challenge=True)
    peer.send(request("true-1"))
    assert peer.result("true-1")["status"] == "completed"
