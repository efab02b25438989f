"""Versions of files on a real disk: what is kept, for how long, and what stops it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from agent_runtime.errors import ToolFailure
from agent_runtime.workspace import FileBackups, SafePath
from agent_runtime.workspace.backups import MAX_FILE_BYTES, VERSIONS_PER_FILE
from agent_testing import ManualClock

FOLDER = ".backups"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path.resolve() / "root"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def backups(clock: ManualClock) -> FileBackups:
    return FileBackups(clock)


def place(root: Path, name: str) -> SafePath:
    return SafePath(root, root / name, name)


def change(backups: FileBackups, root: Path, name: str, data: bytes) -> str | None:
    """As tools and callers do it; the backup's path."""
    at = place(root, name)
    with backups.backing_up(at, data) as kept:
        at.write_atomically(data)
    assert kept.failure is None
    return kept.path


def versions(root: Path, name: str) -> list[bytes]:
    """What is kept of a file, oldest first."""
    folder = root / FOLDER / name
    return [path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()] if folder.is_dir() else []


def test_the_version_before_is_kept_and_named(backups: FileBackups, root: Path) -> None:
    assert change(backups, root, "a/b.md", b"one") is None, "there was none before"
    path = change(backups, root, "a/b.md", b"two")
    assert path is not None
    assert path == f"{FOLDER}/a/b.md/20270115T080000000Z"
    assert (root / path).read_bytes() == b"one"
    assert (root / "a" / "b.md").read_bytes() == b"two"


def test_it_is_the_old_file_itself_and_no_copy(backups: FileBackups, root: Path) -> None:
    (root / "f").write_bytes(b"x" * 5000)
    inode = (root / "f").stat().st_ino
    path = change(backups, root, "f", b"new")
    assert path is not None
    assert (root / path).stat().st_ino == inode
    assert (root / path).stat().st_nlink == 1
    assert (root / "f").stat().st_nlink == 1


def test_changes_within_a_moment_are_all_kept_in_their_order(backups: FileBackups, root: Path) -> None:
    for number in range(10):
        change(backups, root, "f", b"%d" % number)
    assert versions(root, "f") == [b"%d" % number for number in range(9)]


def test_the_oldest_leave_first(backups: FileBackups, root: Path, clock: ManualClock) -> None:
    for number in range(VERSIONS_PER_FILE + 10):
        change(backups, root, "f", b"%d" % number)
        clock.advance(1)
    assert versions(root, "f") == [b"%d" % number for number in range(9, VERSIONS_PER_FILE + 9)]


def test_what_says_the_same_and_what_says_nothing_pushes_nothing_out(backups: FileBackups, root: Path) -> None:
    change(backups, root, "f", b"one")
    for _ in range(3):
        assert change(backups, root, "f", b"one") is None
    change(backups, root, "f", b"")
    assert change(backups, root, "f", b"two") is None
    assert versions(root, "f") == [b"one"]


def test_a_file_below_a_name_that_was_a_file_once(backups: FileBackups, root: Path) -> None:
    change(backups, root, "a", b"one")
    change(backups, root, "a", b"two")
    (root / "a").unlink()
    for data in (b"three", b"four"):
        change(backups, root, "a/b", data)
    assert (versions(root, "a"), versions(root, "a/b")) == ([b"one"], [b"three"])


def test_dying_between_backup_and_publishing_leaves_one_version(root: Path, clock: ManualClock) -> None:
    (root / "f").write_bytes(b"one")
    first = FileBackups(clock).back_up(place(root, "f"), b"two")
    clock.advance(60)
    again = FileBackups(clock).back_up(place(root, "f"), b"two")
    assert first.path == again.path
    place(root, "f").write_atomically(b"two")
    assert versions(root, "f") == [b"one"]


def test_a_version_that_is_too_large_is_told_not_kept(backups: FileBackups, root: Path) -> None:
    with (root / "f").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    kept = backups.back_up(place(root, "f"), b"new")
    assert kept.path is None
    assert kept.metadata() == {"backup_failed": "the previous version has more than 10 MiB"}
    assert versions(root, "f") == []


def test_a_version_is_lost_only_once_something_is_in_its_place(
    backups: FileBackups, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("x" * 300, "f"):
        with suppress(ToolFailure), backups.backing_up(place(root, name), b"two"):
            (root / "f").write_bytes(b"one")
            (root / FOLDER).write_text("in the way")
            raise ToolFailure("it failed")
    assert "not backed up" not in caplog.text
    with backups.backing_up(place(root, "f"), b"two") as kept:
        pass
    assert kept.failure is not None
    assert "not backed up" in caplog.text


@pytest.mark.parametrize("name", [".backups/f/20270115T080000000Z", ".agents/skill-history/f/0001.py"])
def test_what_the_runtime_keeps_itself_is_not_kept_twice(backups: FileBackups, root: Path, name: str) -> None:
    change(backups, root, name, b"one")
    assert change(backups, root, name, b"two") is None


def test_what_is_no_file_is_left_to_whoever_publishes(backups: FileBackups, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    for name in ("link", "folder", "pipe"):
        assert backups.back_up(place(root, name), b"x").metadata() == {}
    assert not (root / FOLDER).exists()


def test_a_trap_in_the_way_costs_the_backup_and_reaches_nothing(
    backups: FileBackups, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "f").write_bytes(b"one")
    (root / FOLDER).symlink_to(outside)
    kept = backups.back_up(place(root, "f"), b"two")
    assert "is not a folder" in (kept.failure or "")
    (root / FOLDER).unlink()
    (root / FOLDER).mkdir()
    (root / FOLDER / "f").write_text("in the way")
    assert backups.back_up(place(root, "f"), b"two").failure is not None
    assert list(outside.iterdir()) == []


def test_all_together_are_bounded_and_the_oldest_leave_first(root: Path, clock: ManualClock) -> None:
    backups = FileBackups(clock, max_bytes=100_000)
    for number in range(40):
        for data in (b"%d" % number * 2000, b"new"):
            change(backups, root, f"folder-{number}/f", data)
        clock.advance(1)
        kept = list((root / FOLDER).rglob("*Z"))
        assert sum(path.stat().st_size for path in kept) <= 100_000 + 4000
    assert versions(root, "folder-39/f") == [b"39" * 2000]
    assert versions(root, "folder-0/f") == []
    assert not (root / FOLDER / "folder-0").exists(), "empty folders go too"


def test_the_latest_version_stays_whatever_the_clock_says(root: Path, clock: ManualClock) -> None:
    backups = FileBackups(clock, max_bytes=10_000)
    for number in range(3):
        for data in (b"x" * 4000, b"new"):
            change(backups, root, f"f{number}", data)
    clock.set_wall(clock.now_ms() - 86_400_000)
    (root / "late").write_bytes(b"y" * 4000)
    path = change(backups, root, "late", b"new")
    assert path is not None
    assert (root / path).exists()


def test_where_there_is_little_room_only_little_is_kept(root: Path, clock: ManualClock) -> None:
    backups = FileBackups(clock, max_bytes=2**20)
    (root / "f").write_bytes(b"x" * 2**20)
    assert backups.back_up(place(root, "f"), b"new").failure == "the previous version has more than 0.9 MiB"


def test_a_new_life_knows_what_is_there(root: Path, clock: ManualClock) -> None:
    for number in range(10):
        for data in (b"x" * 10_000, b"new"):
            change(FileBackups(clock), root, f"f{number}", data)
        clock.advance(1)
    for data in (b"y" * 1000, b"new"):
        change(FileBackups(clock, max_bytes=50_000), root, "last", data)
    assert sum(path.stat().st_size for path in (root / FOLDER).rglob("*Z")) <= 50_000
    assert versions(root, "last") == [b"y" * 1000]


def test_what_commands_have_put_there_hinders_nothing(root: Path, clock: ManualClock, tmp_path: Path) -> None:
    deep = root / FOLDER
    for _ in range(300):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "20200101T000000000Z").write_text("x")
    (root / FOLDER / "f").mkdir()
    (root / FOLDER / "f" / "mine").write_text("x")
    (root / FOLDER / "f" / "20200101T000000000Z").symlink_to(tmp_path)
    backups = FileBackups(clock, versions_per_file=2, max_bytes=10)
    for number in range(6):
        change(backups, root, "f", b"%d" % number)
    assert (root / FOLDER / "f" / "mine").exists()
    assert (root / FOLDER / "f" / "20200101T000000000Z").is_symlink()
    assert len([path for path in (root / FOLDER / "f").iterdir() if path.name.startswith("2027")]) <= 2
    assert tmp_path.exists()


def test_a_second_name_that_somebody_else_gave_is_no_hindrance(backups: FileBackups, root: Path) -> None:
    (root / "f").write_bytes(b"one")
    (root / "other").hardlink_to(root / "f")
    change(backups, root, "f", b"two")
    assert versions(root, "f") == [b"one"]
    assert (root / "other").read_bytes() == b"one"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
def test_the_agent_can_read_and_delete_what_root_has_kept(backups: FileBackups, root: Path) -> None:
    os.chown(root, 61000, 61000)
    for data in (b"one", b"two"):
        change(backups, root, "a/f", data)
    assert {path.stat().st_uid for path in root.rglob("*")} == {61000}
