"""Folders are deleted whatever an agent has made of them, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_host.fleet.folder_deletion import TRASH_PREFIX, FolderDeleter

DEPTH = 1500
"""More than a path may have, and than Python calls may nest."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of workspaces beside files that are no agent's."""
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "folder/precious").write_text("keep")
    (outside / "file").write_text("keep")
    root = tmp_path / "workspaces"
    (root / "other").mkdir(parents=True)
    (root / "other/file").write_text("keep")
    return root


def kept(root: Path) -> bool:
    """Whether only the workspace is gone."""
    outside = root.parent / "outside"
    files = (outside / "folder/precious", outside / "file", root / "other/file")
    return os.listdir(root) == ["other"] and all(file.read_text() == "keep" for file in files)


def nested(home: Path) -> None:
    at = os.open(home, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d" * 50, dir_fd=at)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def links(home: Path) -> None:
    outside = home.parent.parent / "outside"
    (home / "folder").symlink_to(outside / "folder")
    (home / "file").symlink_to(outside / "file")
    (home / "up").symlink_to("..")
    (home / "loop").symlink_to("loop")
    (home / "hard").hardlink_to(outside / "file")
    (home / "inner").mkdir()
    (home / "inner/outside").symlink_to(outside)


def odd(home: Path) -> None:
    os.mkfifo(home / "fifo")
    (home / "-rf").touch()
    (home / "line\nbreak").mkdir()
    (home / "line\nbreak" / TRASH_PREFIX).mkdir()
    with open(os.fsencode(home) + b"/\xff\xfe", "w"):
        pass


def locked(home: Path) -> None:
    (home / "a/b").mkdir(parents=True)
    (home / "a/b/file").touch()
    (home / "a/b").chmod(0)
    (home / "a").chmod(0o500)
    home.chmod(0)


@pytest.mark.slow
@pytest.mark.parametrize("make", [nested, links, odd, locked])
def test_what_an_agent_left_is_deleted_and_nothing_else(root: Path, make: Callable[[Path], None]) -> None:
    home = root / "writer"
    home.mkdir()
    make(home)
    FolderDeleter().delete(home)
    assert kept(root)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_modes_do_not_hold_up_a_host_that_is_not_root(root: Path) -> None:
    for folder in (root, root / "writer"):
        folder.mkdir(exist_ok=True)
        os.chown(folder, 12345, 12345)
    for folder in root.parents:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o001)
    program = (
        "import os, sys; from pathlib import Path; from agent_host.fleet.folder_deletion import FolderDeleter\n"
        "os.setgid(12345); os.setuid(12345)\n"
        "home = Path(sys.argv[1]); (home / 'a/b').mkdir(parents=True); (home / 'a/b/file').touch()\n"
        "[folder.chmod(0) for folder in (home / 'a/b', home / 'a', home)]\n"
        "FolderDeleter().delete(home)"
    )
    subprocess.run([sys.executable, "-c", program, str(root / "writer")], check=True, cwd=Path(__file__).parents[4])
    assert kept(root)


def test_a_link_in_the_place_of_the_folder_is_deleted_itself(root: Path) -> None:
    (root / "writer").symlink_to(root.parent / "outside/folder")
    (root / f"{TRASH_PREFIX}writer").symlink_to(root.parent / "outside/folder")
    FolderDeleter().delete(root / "writer")
    assert kept(root)


def test_what_is_not_there_is_no_fault(root: Path) -> None:
    FolderDeleter().delete(root / "writer")
    FolderDeleter().delete(root / "never/made")
    assert kept(root)


def test_an_earlier_deletion_is_gone_on_with(root: Path) -> None:
    left = root / f"{TRASH_PREFIX}writer"
    (left / "0/a").mkdir(parents=True)
    (left / "0/a/file").touch()
    (root / "writer").mkdir()
    FolderDeleter().delete(root / "writer")
    assert kept(root)


def test_closing_ends_a_deletion_and_another_goes_on(root: Path) -> None:
    (root / "writer").mkdir()
    for number in range(3):
        (root / "writer" / str(number)).touch()
    closed = FolderDeleter()
    closed.close()
    with pytest.raises(InterruptedError, match="goes on at its next start"):
        closed.delete(root / "writer")
    assert not (root / "writer").exists()
    FolderDeleter().delete(root / "writer")
    assert kept(root)


def test_a_folder_that_is_written_to_meanwhile(root: Path) -> None:
    home, stop = root / "writer", threading.Event()
    home.mkdir()
    handle = os.open(home, os.O_RDONLY)

    def write() -> None:
        for number in range(2000):
            if stop.is_set():
                return
            try:
                os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY, dir_fd=handle))
            except FileNotFoundError:  # the folder is gone
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        FolderDeleter().delete(home)
    finally:
        stop.set()
        writer.join()
        os.close(handle)
    assert kept(root)
