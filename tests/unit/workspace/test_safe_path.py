from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import pytest

from agent_runtime.errors import ToolFailure
from agent_runtime.workspace import SafePath, create_output_file, write_atomically


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path.resolve() / "root"


def place(root: Path, name: str) -> SafePath:
    return SafePath(root, root / name, name)


def test_publish_makes_folders_and_says_whether_the_file_is_new(root: Path) -> None:
    at = place(root, "a/b/file")
    assert at.write_atomically(b"one") is True
    assert at.write_atomically(b"two") is False
    assert (root / "a" / "b" / "file").read_bytes() == b"two"
    assert [path.name for path in (root / "a" / "b").iterdir()] == ["file"], "nothing temporary is left"
    with at.open() as file:
        assert file.read() == b"two"


def test_publish_keeps_the_mode(root: Path) -> None:
    script = root / "script"
    script.write_text("x")
    script.chmod(0o4755)
    place(root, "script").write_atomically(b"y")
    assert stat.S_IMODE(script.stat().st_mode) == 0o755, "but never a set-user-id bit"
    place(root, "new").write_atomically(b"y")
    assert stat.S_IMODE((root / "new").stat().st_mode) == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
def test_what_root_writes_belongs_to_the_owner_of_the_folder(root: Path) -> None:
    os.chown(root, 61000, 61000)
    place(root, "deep/er/file").write_atomically(b"x")
    assert {path.stat().st_uid for path in root.rglob("*")} == {61000}
    with create_output_file(root, ".txt") as file:
        assert os.fstat(file.fileno()).st_uid == 61000


def test_publish_outside_of_any_workspace(tmp_path: Path) -> None:
    assert write_atomically(tmp_path / "file", b"x")
    assert not write_atomically(tmp_path / "file", b"y")


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
        place(root, name).write_atomically(b"mine")
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
        at = SafePath(root, (root / name), name)
        with pytest.raises(ToolFailure, match=complaint), at.open():
            pass
        if "gone" not in name:
            with pytest.raises(ToolFailure, match=complaint):
                at.write_atomically(b"x")


def test_a_failed_publish_leaves_nothing_behind(root: Path) -> None:
    with pytest.raises(ToolFailure, match="File name too long"):
        place(root, "x" * 256).write_atomically(b"data")
    assert list(root.iterdir()) == []


def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_else(root: Path) -> None:
    (root / "file").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(ToolFailure, match="file: File too large"):
            place(root, "file").write_atomically(b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [(path.name, path.read_text()) for path in root.iterdir()] == [("file", "old")]


def test_new_files_never_share_a_name(root: Path) -> None:
    with create_output_file(root, ".txt") as one, create_output_file(root, ".txt") as other:
        one.write(b"1")
        assert one.name != other.name
    assert Path(one.name).read_bytes() == b"1"
    assert Path(one.name).parent == root


def test_a_folder_is_listed_and_its_links_are_links(root: Path, tmp_path: Path) -> None:
    (root / "sub").mkdir()
    (root / "file").write_text("x")
    (root / "link").symlink_to(tmp_path)
    found, whole = SafePath(root, root, ".").entries(10)
    assert whole
    kinds = {name: stat.S_IFMT(about.st_mode) for name, about in found}
    assert kinds == {"sub": stat.S_IFDIR, "file": stat.S_IFREG, "link": stat.S_IFLNK}
    assert place(root, "sub").entries(0) == ([], True)
    some, whole = SafePath(root, root, ".").entries(2)
    assert (len(some), whole) == (2, False)
    for name, cause in (("link", NotADirectoryError), ("file", NotADirectoryError), ("none", FileNotFoundError)):
        with pytest.raises(ToolFailure) as caught:
            place(root, name).entries(1)
        assert isinstance(caught.value.__cause__, cause)


def test_publish_with_a_mode_of_its_own(root: Path) -> None:
    at = place(root, "a/script")
    at.write_atomically(b"one", mode=0o755, durable=False)
    assert stat.S_IMODE((root / "a" / "script").stat().st_mode) == 0o755
    at.write_atomically(b"two", mode=0o644)
    assert stat.S_IMODE((root / "a" / "script").stat().st_mode) == 0o644


# ---------------------------------------------------------------- looking


def test_a_look_shows_links_as_links_and_nothing_where_nothing_is(root: Path) -> None:
    (root / "link").symlink_to("gone")
    found = place(root, "link").lstat()
    assert found is not None
    assert stat.S_ISLNK(found.st_mode)
    top = SafePath(root, root, ".").lstat()
    assert top is not None
    assert stat.S_ISDIR(top.st_mode)
    assert place(root, "gone").lstat() is None
    assert place(root, "gone/gone").lstat() is None
    assert SafePath(root / "no root", root / "no root" / "x", "x").lstat() is None
    with pytest.raises(ToolFailure, match="is not a folder"):
        place(root, "link/x").lstat()


def test_a_folder_is_paged_in_the_order_of_its_bytes(root: Path) -> None:
    names = [b"B", b"a", b"b", "\u00e9".encode(), "\U0001f680".encode(), b"\xff\xfe"]
    for name in names:
        os.close(os.open(os.path.join(os.fsencode(root), name), os.O_CREAT))
    (root / "folder").mkdir()
    seen: list[bytes] = []
    while page := SafePath(root, root, ".").page(seen[-1] if seen else b"", 2):
        assert len(page) <= 2
        seen += [os.fsencode(name) for name, _ in page]
    assert seen == sorted([*names, b"folder"])


# ---------------------------------------------------------------- adding


def test_lines_are_added_to_a_file_that_begins_with_its_head(root: Path) -> None:
    at = place(root, "log/day.md")
    assert at.append(b"one\n", head=b"# day\n", max_bytes=100)
    assert at.append(b"two\n", head=b"# day\n", max_bytes=100)
    assert (root / "log" / "day.md").read_bytes() == b"# day\none\ntwo\n"


def test_a_line_that_was_torn_is_ended_first(root: Path) -> None:
    (root / "f").write_bytes(b"one\ntw")
    assert place(root, "f").append(b"three\n", max_bytes=100)
    assert (root / "f").read_bytes() == b"one\ntw\nthree\n"


def test_a_file_that_is_full_stays_as_it_is(root: Path) -> None:
    assert place(root, "f").append(b"12345\n", max_bytes=6)
    assert not place(root, "f").append(b"x\n", max_bytes=7)
    assert (root / "f").read_bytes() == b"12345\n"


def test_nothing_is_added_to_what_is_not_the_file(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret\n")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "second").hardlink_to(tmp_path / "outside")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    for name in ("link", "second", "folder", "pipe"):
        with pytest.raises(ToolFailure):
            place(root, name).append(b"mine\n", max_bytes=1000)
    assert (tmp_path / "outside").read_text() == "secret\n"


def test_a_full_disk_tears_no_line_unnoticed(root: Path) -> None:
    (root / "f").write_text("x" * 990 + "\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(ToolFailure, match="No space left"):
            place(root, "f").append(b"y" * 20 + b"\n", max_bytes=5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
def test_what_root_adds_belongs_to_the_owner_of_the_folder(root: Path) -> None:
    os.chown(root, 61000, 61000)
    place(root, "log/day").append(b"x\n", max_bytes=10)
    assert {path.stat().st_uid for path in root.rglob("*")} == {61000}


# ---------------------------------------------------------------- second names, and none


def test_a_second_name_is_the_same_file(root: Path) -> None:
    (root / "f").write_text("x")
    place(root, "f").link(place(root, "a/b/g"))
    assert (root / "a" / "b" / "g").samefile(root / "f")
    with pytest.raises(ToolFailure) as caught:
        place(root, "f").link(place(root, "a/b/g"))
    assert isinstance(caught.value.__cause__, FileExistsError)


def test_only_files_get_a_second_name(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "way").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    for name in ("link", "pipe", "gone"):
        with pytest.raises(ToolFailure):
            place(root, name).link(place(root, "to"))
    (root / "f").touch()
    with pytest.raises(ToolFailure):
        place(root, "f").link(place(root, "way/to"))
    assert not (root / "to").exists()
    assert not (tmp_path / "to").exists()


def test_only_files_are_removed_and_only_empty_folders(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "folder").mkdir()
    (root / "folder" / "f").touch()
    for name in ("link", "folder", "gone"):
        with pytest.raises(ToolFailure):
            place(root, name).remove()
    assert not place(root, "folder").remove_if_empty()
    place(root, "folder/f").remove()
    assert place(root, "folder").remove_if_empty()
    assert not place(root, "folder").remove_if_empty()
    assert not SafePath(root, root, ".").remove_if_empty()
    assert [path.name for path in root.iterdir()] == ["link"]
