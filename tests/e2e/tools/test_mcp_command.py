"""`agent-runtime mcp test`: how the servers are, without a turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.connectors.test_hostile import hostile
from tests.measured import MEASURED

DEMO = Path(__file__).parents[2] / "integration" / "connectors" / "demo_server.py"
CONFIG = {
    "demo": {"command": sys.executable, "args": [str(DEMO), "stdio"], "read": [str(DEMO.parent)]},
    "off": {"command": "nothing", "disabled": True},
    "gone": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    "blind": {"command": sys.executable, "args": [str(DEMO), "stdio"]},
    "odd": hostile("TOOLS.append({'name': 'odd', 'inputSchema': '{}'})"),
}


def run(data: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent_runtime", "mcp", "test", *arguments]
    env = {**os.environ, **MEASURED, "AGENT_DATA_DIR": str(data), "TOKEN": "a-secret-token", **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=100)


def write(data: Path, content: Any) -> None:
    data.mkdir(exist_ok=True)
    (data / "mcp.json").write_text(json.dumps({"mcpServers": content}))


def test_every_server_is_told_with_its_tools_or_its_fault(tmp_path: Path) -> None:
    write(tmp_path / "data", CONFIG)
    done = run(tmp_path / "data")
    assert done.returncode == 1, done.stderr
    told = dict[str, str]()
    for block in done.stdout.replace("\n  ", "\t").splitlines():
        head, _, rest = block.partition("\t")
        told[head] = rest
    assert list(told) == [
        "demo (local): ready",
        "off (local): disabled",
        "gone (remote): failed",
        "blind (local): failed",
        "odd (local): ready",
    ]
    assert "demo_add" in told["demo (local): ready"]
    assert "refuses a connection" in told["gone (remote): failed"]
    assert f'it cannot see {DEMO}; add "read": ["' in told["blind (local): failed"]
    assert "odd_ok" in told["odd (local): ready"]
    assert "left out: odd: its inputSchema is a string" in told["odd (local): ready"]
    assert "a-secret-token" not in done.stdout + done.stderr


@pytest.mark.slow
def test_one_server_by_its_name(tmp_path: Path) -> None:
    write(tmp_path / "data", CONFIG)
    done = run(tmp_path / "data", "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("demo (local): ready\n")
    assert "gone" not in done.stdout


def test_a_wrong_file_is_told_with_every_fault(tmp_path: Path) -> None:
    write(
        tmp_path / "data", {"a": {"command": "x", "timeout": 5}, "b": {"type": "sse", "url": "https://b.example/sse"}}
    )
    done = run(tmp_path / "data")
    assert done.returncode == 1
    assert "server 'a': timeout: write timeout_ms, in milliseconds" in done.stderr
    assert "server 'b': type: must be one of" in done.stderr
    missing = run(tmp_path / "data", "c", AGENT_MCP_FILE=str(tmp_path / "none.json"))
    assert missing.returncode == 1
    assert "there is no such file" in missing.stderr
