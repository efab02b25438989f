from __future__ import annotations

from pathlib import Path

from agent_runtime.skills.sources import plugin_files


def test_what_a_crash_has_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    left = plugin_files.write_temporary(tmp_path / "greet.py", b"new")
    others = {"greet.py", ".greet.py.swp", ".mine.tmp", ".greet.py-backup.tmp"}
    for name in others:
        (tmp_path / name).write_text("x")
    plugin_files.remove_leftovers(tmp_path)
    assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == others
    plugin_files.remove_leftovers(tmp_path / "gone")


def test_a_file_is_put_in_place_whole(tmp_path: Path) -> None:
    path = tmp_path / "greet.py"
    path.write_bytes(b"old")
    beside = plugin_files.write_temporary(path, b"new")
    assert path.read_bytes() == b"old"
    plugin_files.move(beside, path)
    plugin_files.discard(beside)
    assert [one.name for one in tmp_path.iterdir()] == ["greet.py"]
    assert path.read_bytes() == b"new"
