"""`agent mcp add` writes what the runtime takes, and refuses what it would refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent_client.cli.commands.agent.mcp import app
from agent_runtime.connectors.config.config import parse_servers

NOTES = {"command": "/opt/notes"}
DATA = Path("/var/lib/agent")


def add(file: Path, *arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, ["add", arguments[0], "--file", str(file), *arguments[1:]])
    return ended.exit_code, ended.output


@pytest.mark.parametrize(
    "before",
    [
        None,
        {"servers": {"notes": NOTES}},
        {"mcp": {"servers": {"notes": NOTES}, "inputs": []}},
        {"mcp": {"notes": NOTES}},
    ],
)
def test_a_server_is_beside_those_that_are_there(tmp_path: Path, before: dict[str, Any] | None) -> None:
    file = tmp_path / "mcp.json"
    if before is not None:
        file.write_text(json.dumps(before))
    code, output = add(file, "docs", "--server", "${DOCS_URL}", "--header", "X-Key=DOCS_KEY")
    assert code == 0, output
    variables = {"DOCS_URL": "https://docs.example/mcp", "DOCS_KEY": "k"}
    servers = parse_servers(json.loads(file.read_text()), DATA, variables)
    assert [server.name for server in servers] == (["notes", "docs"] if before else ["docs"])


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("my.notes", "--", "x"), "name: must be 1 to 40 letters"),
        (("docs", "--server", "mcp.example.org"), "url: must be http:// or https://"),
        (("docs", "--server", "https://ann:pw@mcp.example.org"), "url: must not carry a user"),
        (("docs", "--server", "https://mcp.example.org", "--header", "Host=DOCS_KEY"), "headers: 'Host' cannot be set"),
        (("docs", "--server", "https://mcp.example.org", "--env", "DOCS_KEY"), "env: not for a server with url"),
        (("notes", "--read", "here", "--", "x"), "read: 'here' must be an absolute path"),
        (("notes", "--", "python notes.py"), "command: must be the program alone"),
    ],
)
def test_what_the_runtime_would_refuse_is_not_written(tmp_path: Path, arguments: tuple[str, ...], fault: str) -> None:
    file = tmp_path / "mcp.json"
    code, output = add(file, *arguments)
    assert (code, fault in output) == (2, True), output
    assert not file.exists()
