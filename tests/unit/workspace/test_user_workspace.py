"""A workspace that is a folder of the user: what the agent is asked to make is there, and the runtime's own records are
in the data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_common.errors import StartError
from agent_runtime.workspace import OPERATOR, FileBackups, Home, SafePath, read_instructions, resolve_for_principal
from agent_testing import ManualClock


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "project").mkdir()
    home = Home(tmp_path / "data", user_folder=tmp_path / "project")
    home.prepare()
    return home


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_backups_are_kept_among_the_records(home: Home) -> None:
    file = SafePath(home.workspace, home.workspace / "src" / "a.py", "src/a.py")
    file.write_atomically(b"one")
    kept = FileBackups(ManualClock(), root=home.records).back_up(file, b"two")
    assert kept.failure is None
    assert names(home.workspace) == ["src/a.py"]
    (copy,) = names(home.records)
    assert kept.path == copy
    assert resolve_for_principal(home, OPERATOR, copy).path.read_bytes() == b"one", "callers find it by that path"


@pytest.mark.parametrize("path", ["USER.md", "memory/2026-11-05.md", ".backups/USER.md/x"])
def test_the_operators_own_files_are_records(path: str, home: Home) -> None:
    assert resolve_for_principal(home, OPERATOR, path).path == home.records / path


@pytest.mark.parametrize("path", ["AGENTS.md", "MEMORY.md", "notes/memory/x", ".agents/skills/a/SKILL.md"])
def test_everything_else_is_in_the_users_folder(path: str, home: Home) -> None:
    assert resolve_for_principal(home, OPERATOR, path).path == home.workspace / path


def test_instructions_are_the_operators_and_the_folders_own(home: Home, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("not ours")
    (home.data_dir / "AGENTS.md").write_text("outer")
    (home.workspace / "AGENTS.md").write_text("inner")
    assert [(file.source, file.text) for file in read_instructions(home).files] == [
        ("operator", "outer"),
        ("workspace", "inner"),
    ]


@pytest.mark.parametrize("folder", ["data", ".", "data/workspace"])
def test_the_data_folder_is_not_to_be_worked_in(folder: str, tmp_path: Path) -> None:
    (tmp_path / "data" / "workspace").mkdir(parents=True)
    with pytest.raises(StartError, match=r"AGENT_WORKSPACE_DIR: .* must not contain each other"):
        Home(tmp_path / "data", user_folder=tmp_path / folder).prepare()
