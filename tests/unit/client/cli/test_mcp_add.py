"""`agent mcp add` writes what the runtime takes, and refuses what it would refuse; `remove` takes it out again."""

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


def add(file: Path, *arguments: str, command: str = "add") -> tuple[int, str]:
    ended = CliRunner().invoke(app, [command, arguments[0], "--file", str(file), *arguments[1:]])
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


@pytest.mark.parametrize("around", [{"servers": {}}, {"mcp": {"servers": {}, "inputs": []}}])
def test_a_server_is_taken_out_and_the_others_stay(tmp_path: Path, around: dict[str, Any]) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(around))
    for name in ("docs", "notes"):
        assert add(file, name, "--", "/opt/x")[0] == 0
    code, output = add(file, "docs", command="remove")
    assert (code, "docs is no longer in" in output) == (0, True), output
    left = json.loads(file.read_text())
    assert [server.name for server in parse_servers(left, DATA, {})] == ["notes"]
    assert left.get("mcp", around.get("mcp", {})).keys() == around.get("mcp", {}).keys()
    code, output = add(file, "docs", command="remove")
    assert (code, "names no server 'docs'; it names notes" in output) == (1, True), output
    assert json.loads(file.read_text()) == left


def test_it_is_said_how_the_agent_gets_it_and_how_a_name_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "mcp.json"
    assert "from its next start on: `agent stop WORKSPACE`, then `agent start WORKSPACE`" in add(
        file, "docs", "--", "/opt/x"
    )[1].replace("\n", " ")
    code, output = add(file, "docs", "--", "/opt/y")
    assert (code, "`agent mcp remove docs` first" in output) == (2, True), output


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert add(tmp_path / "mcp.json", "docs", command="remove")[0] == 1
    assert not (tmp_path / "mcp.json").exists()
