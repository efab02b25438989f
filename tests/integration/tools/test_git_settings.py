"""The settings of git that no repository can override are in force under each confinement."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agent_runtime.sandbox import Confinement, SandboxSpec
from agent_runtime.sandbox.backends.unconfined import UnconfinedBackend
from agent_runtime.workspace import Home

from ..conftest import Hold
from .test_confinements_without_namespaces import Backend
from .test_confinements_without_namespaces import backend as backend  # noqa: PLC0414 - a fixture

FORGED = """
forge() {
  mkdir -p $1/objects $1/refs $1/tree; echo x > $1/objects/x; echo x > $1/refs/x
  echo 'ref: refs/heads/main' > $1/HEAD
  printf '[core]\\nrepositoryformatversion = 0\\nbare = %s\\n%s\\nfsmonitor = "touch %s/planted; false"\\n' \\
    $2 "$3" $PWD > $1/config
}
forge . false 'worktree = tree'; git status; git log
rm -r HEAD config objects refs
forge sub false 'worktree = tree'; (cd sub; git status); (cd sub/tree; git status)
forge bare true ''; (cd bare; git status; git log)
"""
"""Writes the files of repositories that are not named `.git`, of which git would take a command, and asks git there."""
ITS_OWN = "git init -q own; chmod 777 own; cd own; echo x > f; git status --short"
FORGERIES = 6
STRANGER = 12345


def assert_refused(printed: str, workspace: Path) -> None:
    assert not (workspace / "planted").exists(), printed
    assert printed.count("safe.bareRepository") == FORGERIES, printed


async def ask_git(confinement: Confinement, home: Home, command: str) -> str:
    workspace = home.workspace
    done = await confinement.run(("bash", "-c", command), SandboxSpec(workspace, (workspace,)), timeout=20)
    return done.stdout + done.stderr


async def test_under_bubblewrap(tmp_path: Path, hold: Hold) -> None:
    home = Home(tmp_path / "data")
    home.prepare()
    confinement = await hold(home.data_dir)
    home = home.with_owner(confinement.uid)
    assert_refused(await ask_git(confinement, home, FORGED), home.workspace)
    assert await ask_git(confinement, home, ITS_OWN) == "?? f\n"


async def test_without_confinement(tmp_path: Path) -> None:
    home = Home(tmp_path / "data")
    home.prepare()
    confinement = Confinement(UnconfinedBackend())
    assert_refused(await ask_git(confinement, home, FORGED), home.workspace)
    assert await ask_git(confinement, home, ITS_OWN) == "?? f\n"


def test_without_namespaces(backend: Backend) -> None:
    assert_refused(backend.bash(FORGED), backend.data / "workspace")


@pytest.mark.parametrize("backend", ["the same user under Landlock"], indirect=True)
def test_a_repository_of_another_user_is_one_without_namespaces(backend: Backend) -> None:
    own = backend.data / "workspace" / "own"
    subprocess.run(("git", "init", "-q", own), check=True)
    (own / "f").write_text("x")
    shutil.chown(own.parent, backend.uid, backend.uid)
    for path in (own, *own.rglob("*")):
        shutil.chown(path, STRANGER, STRANGER)
    assert backend.bash("cd own; git status --short") == "?? f\n"
