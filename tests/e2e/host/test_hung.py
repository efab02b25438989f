"""An agent that answers nothing any more, though its process is there, is killed and started again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.integration.host.live import Host

from .test_restore import create, kinds, runs, until

pytestmark = pytest.mark.slow


def servers(host: Host) -> list[psutil.Process]:
    """The processes of agents that the host has."""
    found: list[psutil.Process] = []
    for one in psutil.Process(host.process.pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            if one.cmdline()[1:4] == ["-m", "agent_runtime", "serve"]:
                found.append(one)
    return found


def test_an_agent_that_answers_nothing_runs_again(tmp_path: Path) -> None:
    with Host(tmp_path / "data", MESH_HANG_TIMEOUT=10, MESH_LISTENER_HEARTBEAT=1) as host:
        create(host, "writer")
        until(lambda: "attached" in kinds(host, "writer"), "it is at its channel")
        (stuck,) = servers(host)
        stuck.suspend()
        until(lambda: "hung" in kinds(host, "writer"), "the host has noticed")
        until(lambda: not stuck.is_running(), "it is gone")
        until(lambda: runs(host, "writer") and len(servers(host)) == 1, "another one runs")
        assert host.mesh.work.submit("writer", "hello", id="hello") is not None
        assert host.mesh.work.wait("hello", 60).status == "resulted"
