"""`agent skill remove` deletes the file of a plugin, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_client.cli.commands.agent.skill import app


def remove(folder: Path, name: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, ["remove", name, "--folder", str(folder)])
    return ended.exit_code, ended.output


@pytest.mark.parametrize("name", ["shout", "shout.py"])
def test_a_plugin_is_removed(tmp_path: Path, name: str) -> None:
    for file in ("shout.py", "count.py"):
        (tmp_path / file).touch()
    assert remove(tmp_path, name) == (0, f"{tmp_path / 'shout.py'} is removed\n")
    assert [file.name for file in tmp_path.iterdir()] == ["count.py"]
    code, output = remove(tmp_path, name)
    assert (code, "`agent skill list` shows the files" in output) == (1, True), output


@pytest.mark.parametrize("name", ["../shout", "Shout", ".", ""])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "shout.py").touch()
    assert remove(tmp_path / "skills", name)[0] == 2
    assert (tmp_path / "shout.py").exists()
