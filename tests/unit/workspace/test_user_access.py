"""Another user is let into a folder: into all that is there and all that will be made, and nowhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent_runtime.workspace.user_access import ACCESS, grant_access

OTHER = 61000
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as another user")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)  # pytest closes them to other users
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.txt").write_text("a")
    (folder / "src" / "a.txt").chmod(0o600)
    return folder


def run(script: str, folder: Path, uid: int = OTHER) -> str:
    """Run a script of the shell as another user, and return what it complains about."""
    ended = subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=folder,
        user=uid,
        group=uid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stderr


def test_what_is_there_and_what_will_be_made_is_open_to_both(project: Path) -> None:
    grant_access(project, OTHER)
    assert run("printf b >> src/a.txt && printf n > src/new", project) == ""
    assert (project / "src" / "a.txt").read_text() == "ab"
    (project / "later").mkdir()
    (project / "later" / "file").write_text("x")
    assert run("printf y >> later/file", project) == ""
    owners = {path.stat().st_uid for path in (project, project / "src", project / "src" / "a.txt")}
    assert owners == {0}, "the owner stays"


def test_a_second_time_changes_nothing(project: Path) -> None:
    grant_access(project, OTHER)
    before = os.getxattr(project, ACCESS)
    grant_access(project, OTHER)
    assert os.getxattr(project, ACCESS) == before


def test_links_lead_nowhere(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s")
    (outside / "secret").chmod(0o600)
    (project / "link").symlink_to(outside)
    os.link(outside / "secret", project / "hard")
    grant_access(project, OTHER)
    assert "Permission denied" in run("cat hard", project)
    assert "Permission denied" in run("cat link/secret", project)
    assert ACCESS not in os.listxattr(outside)


def test_a_users_own_folder_stays_open_to_that_user(project: Path) -> None:
    os.chown(project, 4321, 4321)
    grant_access(project, OTHER)
    assert run("printf m > made", project) == ""
    assert run("printf o >> made", project, uid=4321) == ""
    assert (project / "made").read_text() == "mo"
