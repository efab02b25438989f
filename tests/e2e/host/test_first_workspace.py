"""The first commands of docs/how-to/fleet.md make a workspace, and it works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_testing import LiveProcess

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "fleet.md").read_text("utf-8")


@pytest.mark.slow
def test_the_page_begins_with_a_workspace_that_is_used(tmp_path: Path) -> None:
    block = re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    first, *commands = block[1].strip().splitlines()
    assert first.startswith("agent-host up &")
    env = {"MESH_PORT": "0", "MESH_DATA_DIR": str(tmp_path), "MESH_PROVIDER": "demo", "MESH_LISTENER_URL": "off"}
    with LiveProcess([sys.executable, "-m", "agent_host", "up"], env) as host:
        url = host.wait_for_output(r"listens on (http://\S+)", 60)[1]
        script = "\n".join(f"{line.partition('  #')[0]}; echo" for line in commands).replace("http://", "")
        script = script.replace("agent-host token", f"{sys.executable} -m agent_host token")
        script = script.replace("localhost:8420", url)
        done = subprocess.run(
            ["bash", "-c", script], env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False
        )
        answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert len(answers) == 4, done
        created, started, replied, stopped = answers
        assert (created["id"], started["state"], stopped["state"]) == ("writer", "running", "stopped")
        assert f"{tmp_path}" in replied["response"]
