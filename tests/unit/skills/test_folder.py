from __future__ import annotations

from pathlib import Path

from agent_runtime.skills import folder


def test_what_a_crash_has_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    left = folder.put_beside(tmp_path / "greet.py", b"new")
    others = {"greet.py", ".greet.py.swp", ".mine.tmp", ".greet.py-backup.tmp"}
    for name in others:
        (tmp_path / name).write_text("x")
    folder.sweep(tmp_path)
    assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == others
    folder.sweep(tmp_path / "gone")


def test_a_file_is_put_in_place_whole(tmp_path: Path) -> None:
    path = tmp_path / "greet.py"
    path.write_bytes(b"old")
    beside = folder.put_beside(path, b"new")
    assert path.read_bytes() == b"old"
    folder.move(beside, path)
    folder.discard(beside)
    assert [one.name for one in tmp_path.iterdir()] == ["greet.py"]
    assert path.read_bytes() == b"new"
