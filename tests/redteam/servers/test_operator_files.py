"""What the operator names is not where the agent writes: a plugin that its `write` puts there would serve everybody,
and a server that it names in mcp.json would run with the operator's secrets, both without a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_testing import LiveProcess
from tests.e2e.live import Runtime

REFUSED = 1


def start(data: Path, **settings: Path | str) -> str:
    """What a server says that does not come up."""
    env = {"AGENT_PORT": "0", "AGENT_DATA_DIR": str(data), "AGENT_LLM_BASE_URL": "http://127.0.0.1:9/v1"}
    with LiveProcess(Runtime.command, {**env, **{name: str(value) for name, value in settings.items()}}) as process:
        assert process.wait(60) == REFUSED, process.output()
        return process.output()


def test_nothing_that_decides_over_the_agent_is_in_its_workspace(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "skills").mkdir(parents=True)
    for name in ("mcp.json", "constraints.json", "token"):
        (workspace / name).write_text("{}")
    (workspace / "policy.yaml").write_text("rules: []")
    (tmp_path / "key").symlink_to(workspace / "key")
    said = start(
        tmp_path,
        AGENT_SKILLS_DIR=workspace / "skills",
        AGENT_MCP_FILE=workspace / "mcp.json",
        AGENT_CONSTRAINTS_FILE=workspace / "constraints.json",
        AGENT_MEDIATION_KEY_FILE=tmp_path / "key",
        AGENT_WATCHDOG=workspace / "policy.yaml",
        AGENT_SKILL_PATHS=workspace / "skills",
        AGENT_SOCKET=workspace / "socket",
        AGENT_TOKEN_FILE=workspace / "token",
    )
    decisive = ("SKILLS_DIR", "MCP_FILE", "CONSTRAINTS_FILE", "MEDIATION_KEY_FILE", "WATCHDOG")
    for name in (*decisive, "SKILL_PATHS", "SOCKET", "TOKEN_FILE"):
        assert f"AGENT_{name}: the agent can change " in said


def test_one_of_several_folders_of_packages_is_enough(tmp_path: Path) -> None:
    """And so is a link that leads there."""
    (tmp_path / "workspace" / "shared").mkdir(parents=True)
    (tmp_path / "packages").symlink_to("workspace/shared")
    folders = f"{tmp_path / 'elsewhere'}:{tmp_path / 'packages'}"
    assert "AGENT_SKILL_PATHS: the agent can change " in start(tmp_path, AGENT_SKILL_PATHS=folders)


@pytest.mark.parametrize("folder", [".", "scratch", "plugins"])
def test_the_folder_of_plugins_neither_contains_nor_leads_into_what_the_agent_writes(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "plugins").symlink_to("workspace")
    assert "AGENT_SKILLS_DIR: " in start(tmp_path, AGENT_SKILLS_DIR=tmp_path / folder)
