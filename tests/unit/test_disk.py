"""What must survive a power failure is brought to the disk before it is called done: the last step says so here."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent_common import disk
from agent_host.artifacts.files import ArtifactFiles
from agent_host.database.copy import copy_sqlite
from agent_host.secrets.store import SecretStore
from agent_runtime.skills.sources import plugin_files


def write_secret(folder: Path) -> Path:
    SecretStore(folder).set("KEY", "a long enough value")
    return folder / "secrets"


def keep_artifact(folder: Path) -> Path:
    files = ArtifactFiles(folder / "artifacts")
    files.make_folder()
    with files.create("one") as file:
        file.write(b"data")
        files.keep(file, "one")
    return folder / "artifacts"


def move_plugin(folder: Path) -> Path:
    path = folder / "one.py"
    plugin_files.move(plugin_files.write_temporary(path, b"data"), path)
    return folder


def copy_database(folder: Path) -> Path:
    with closing(sqlite3.connect(folder / "one.db")) as connection:
        connection.execute("CREATE TABLE one (two)")
    copy_sqlite(folder / "one.db", folder / "copy.db")
    return folder / "copy.db"


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files and folders that were brought to the disk, in their order."""
    found: list[Path] = []
    sync = os.fsync

    def record(handle: int) -> None:
        found.append(Path(f"/proc/self/fd/{handle}").readlink())
        sync(handle)

    monkeypatch.setattr(os, "fsync", record)
    return found


@pytest.mark.parametrize("write", [write_secret, keep_artifact, move_plugin, copy_database])
def test_the_last_step_of_a_write_brings_it_to_the_disk(
    write: Callable[[Path], Path], brought: list[Path], tmp_path: Path
) -> None:
    assert write(tmp_path) == brought[-1]


def test_a_file_is_brought_to_the_disk(brought: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "one"
    path.write_bytes(b"data")
    disk.sync(path)
    assert brought == [path]


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk.sync(tmp_path / "missing")
