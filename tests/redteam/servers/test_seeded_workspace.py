"""A workspace that the operator has filled: what is elsewhere, and only linked there, stays the operator's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.live import Runtime, fresh

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to the user of commands")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository outside of the data folder, with one commit."""
    folder = tmp_path_factory.mktemp("srv") / "repo"
    folder.mkdir()
    (folder / "page.md").write_text("the first page\n")
    for command in ("init -q", "add .", "-c user.name=op -c user.email=op@example.org commit -qm first"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def agent(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A runtime whose workspace holds a clone of it, and whose database got a second name there in an earlier life."""
    data = tmp_path_factory.mktemp("seeded")
    (data / "workspace").mkdir()
    subprocess.run(["git", "clone", "-q", original, data / "workspace" / "repo"], check=True)
    with ScriptedProvider() as provider, Runtime(provider, data) as runtime:
        os.link(data / "agent.db", data / "workspace" / "second-name")
        runtime.start()
        yield runtime


def call(runtime: Runtime, tool: str, **arguments: Any) -> Any:
    """What a tool answers."""
    runtime.provider.script.replace([Call(tool, arguments), Say("over")])
    reply = runtime.chat("work", session_id=fresh("s"))
    assert reply.status_code == 200, reply.text
    return reply.json()["tool_outputs"][0]["output"]


def bash(runtime: Runtime, command: str) -> str:
    """What a command of the agent prints."""
    data = call(runtime, "bash", command=command)["data"]
    return data["stdout"] + data["stderr"]


def test_a_repository_that_was_cloned_from_keeps_its_objects(agent: Runtime, original: Path) -> None:
    linked = [path for path in (original / ".git").rglob("*") if path.is_file() and path.stat().st_nlink > 1]
    assert linked, "git links what it clones on the same disk"
    printed = bash(
        agent,
        "cd repo && find .git/objects -type f -exec sh -c 'chmod u+w $0; echo broken > $0' {} \\; ; "
        "rm page.md; echo mine > page.md; cat page.md",
    )
    assert printed.startswith("mine\n"), "what has one name is the agent's"
    assert "Permission denied" in printed
    assert {path.stat().st_uid for path in original.rglob("*")} == {0}
    subprocess.run(["git", "fsck", "--strict"], cwd=original, check=True, capture_output=True)


def test_the_database_stays_closed_under_a_second_name(agent: Runtime) -> None:
    assert (agent.data_dir / "agent.db").stat().st_uid == 0
    assert "SQLite" not in bash(agent, "head -c 15 second-name")
    assert "is a hard link to a file of another user" in json.dumps(call(agent, "read", path="second-name"))
    assert agent.get("/workspace/second-name").status_code == 403


def test_the_log_names_what_was_not_given_away(agent: Runtime) -> None:
    (line,) = [one for one in agent.process.output().splitlines() if "some files still belong to another user" in one]
    assert str(agent.data_dir / "workspace" / "second-name") in line
    assert '"count": ' in line
