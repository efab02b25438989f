from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import pytest

from agent_runtime.errors import ToolFailure
from agent_runtime.workspace import Place, new_file, publish


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path.resolve() / "root"


def place(root: Path, name: str) -> Place:
    return Place(root, root / name, name)


def test_publish_makes_folders_and_says_whether_the_file_is_new(root: Path) -> None:
    at = place(root, "a/b/file")
    assert at.publish(b"one") is True
    assert at.publish(b"two") is False
    assert (root / "a" / "b" / "file").read_bytes() == b"two"
    assert [path.name for path in (root / "a" / "b").iterdir()] == ["file"], "nothing temporary is left"
    with at.open() as file:
        assert file.read() == b"two"


def test_publish_keeps_the_mode(root: Path) -> None:
    script = root / "script"
    script.write_text("x")
    script.chmod(0o4755)
    place(root, "script").publish(b"y")
    assert stat.S_IMODE(script.stat().st_mode) == 0o755, "but never a set-user-id bit"
    place(root, "new").publish(b"y")
    assert stat.S_IMODE((root / "new").stat().st_mode) == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
def test_what_root_writes_belongs_to_the_owner_of_the_folder(root: Path) -> None:
    os.chown(root, 61000, 61000)
    place(root, "deep/er/file").publish(b"x")
    assert {path.stat().st_uid for path in root.rglob("*")} == {61000}
    with new_file(root, ".txt") as file:
        assert os.fstat(file.fileno()).st_uid == 61000


def test_publish_outside_of_any_workspace(tmp_path: Path) -> None:
    assert publish(tmp_path / "file", b"x")
    assert not publish(tmp_path / "file", b"y")


@pytest.mark.parametrize("name", ["link/file", "dir/link"])
def test_a_link_that_appears_after_the_check_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    """The path was resolved before the link was there: that is how a swap looks to the code."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret")
    (root / "dir").mkdir()
    (root / "link").symlink_to(outside)
    (root / "dir" / "link").symlink_to(outside / "file")
    with pytest.raises(ToolFailure), place(root, name).open():
        pass
    with pytest.raises(ToolFailure):
        place(root, name).publish(b"mine")
    assert (outside / "file").read_text() == "secret"


def test_what_is_not_a_file_is_refused(root: Path) -> None:
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    (root / "file").touch()
    for name, complaint in [
        ("folder", "folder is a folder"),
        ("pipe", "not a regular file"),
        ("file/x", "a part of file/x is not a folder"),
        ("gone", "gone does not exist"),
        ("gone/gone", "does not exist"),
        ("x" * 300, "too long"),
        (".", "is a folder"),
    ]:
        at = Place(root, (root / name), name)
        with pytest.raises(ToolFailure, match=complaint), at.open():
            pass
        if "gone" not in name:
            with pytest.raises(ToolFailure, match=complaint):
                at.publish(b"x")


def test_a_failed_publish_leaves_nothing_behind(root: Path) -> None:
    with pytest.raises(ToolFailure, match="File name too long"):
        place(root, "x" * 256).publish(b"data")
    assert list(root.iterdir()) == []


def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_else(root: Path) -> None:
    (root / "file").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(ToolFailure, match="file: File too large"):
            place(root, "file").publish(b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [(path.name, path.read_text()) for path in root.iterdir()] == [("file", "old")]


def test_new_files_never_share_a_name(root: Path) -> None:
    with new_file(root, ".txt") as one, new_file(root, ".txt") as other:
        one.write(b"1")
        assert one.name != other.name
    assert Path(one.name).read_bytes() == b"1"
    assert Path(one.name).parent == root
