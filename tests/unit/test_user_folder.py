"""The folders of the user in which an agent may work, and those in which it may not."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from agent_common.user_folder import check_user_folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_a_project_is_fine_and_comes_without_links(project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    assert check_user_folder(tmp_path / "link", apart_from=()) == project


@pytest.mark.parametrize(
    "path", ["/", "/etc", "/etc/ssl", "/usr", "/tmp", "/proc/self", "/home", "/sys", "/bin", "/lib", "/usr/bin"]
)
def test_the_system_is_no_project(path: str) -> None:
    with pytest.raises(ValueError, match=r"belongs to the system|contains it"):
        check_user_folder(Path(path), apart_from=())


@pytest.mark.parametrize("below", [".", ".ssh", ".config/agent", ".."])
def test_the_home_of_the_user_and_its_hidden_folders_are_none(
    below: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    (project / below).mkdir(parents=True, exist_ok=True)
    with pytest.raises(ValueError, match=r"your home"):
        check_user_folder(project / below, apart_from=())


@pytest.mark.parametrize("below", [".", ".ssh"])
def test_the_home_of_the_owner_is_none_either(below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is root has another home than the user whose folder it is given."""
    monkeypatch.setenv("HOME", str(tmp_path))
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    with pytest.raises(ValueError, match=r"your home|cannot be used"):
        check_user_folder(home / below, apart_from=())


@pytest.mark.parametrize("kept", [".", "data", ".."])
def test_data_of_agents_stays_apart_also_behind_a_link(kept: str, project: Path, tmp_path: Path) -> None:
    (project / kept).mkdir(exist_ok=True)
    (tmp_path.parent / "kept-link").unlink(missing_ok=True)
    (tmp_path.parent / "kept-link").symlink_to(project / kept)
    with pytest.raises(ValueError, match="must not contain each other"):
        check_user_folder(project, apart_from=(tmp_path.parent / "kept-link",))


def test_what_is_no_folder_is_named_as_such(project: Path) -> None:
    (project / "file").touch()
    with pytest.raises(ValueError, match="is not a folder"):
        check_user_folder(project / "file", apart_from=())
    with pytest.raises(ValueError, match="No such file"):
        check_user_folder(project / "missing", apart_from=())
    with pytest.raises(ValueError, match="must be a whole path"):
        check_user_folder(Path("project"), apart_from=())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_root_may_work_in_folders_of_others(project: Path) -> None:
    os.chown(project, 4321, 4321)
    assert check_user_folder(project, apart_from=()) == project
