"""Files that are written in place: a mount point, as `docker run -v ./notes.md:/work/notes.md` makes it, and one whose
folder takes no new files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, os, sys
from pathlib import Path
from agent_runtime.errors import RequestError, ToolFailure
from agent_runtime.workspace import SafePath
from agent_runtime.workspace.http.http_errors import failures_as_http

root, told = Path(sys.argv[1]), {}
file = SafePath(root, root / "notes.md", "notes.md")
for name, act in {
    "longer": lambda: file.write_atomically(b"longer than before"),
    "shorter": lambda: file.write_atomically(b"short", durable=False),
    "remove": lambda: file.remove(),
}.items():
    try:
        told[name] = [act(), (root / "notes.md").read_text()]
    except ToolFailure as failure:
        told[name] = failure.message
try:
    with failures_as_http("notes.md"):
        file.remove()
except RequestError as error:
    told["code"] = error.code
told["left"] = sorted(os.listdir(root))
print(json.dumps(told))
"""
BACKUPS_PROGRAM = """
import json, sys
from pathlib import Path
from agent_runtime.errors import ToolFailure
from agent_runtime.workspace import FileBackups, SafePath
from agent_testing import ManualClock

root, told, backups = Path(sys.argv[1]), {}, FileBackups(ManualClock())
for name, text in ("notes.md", "two"), ("notes.md", "three"), ("linked", "two"), ("read-only", "2"), ("read-only", "3"):
    data = text.encode()
    file = SafePath(root, root / "folder" / name, name)
    try:
        with backups.backing_up(file, data) as kept:
            file.write_atomically(data)
        told.setdefault(name, []).append((root / kept.path).read_text())
    except ToolFailure as failure:
        told.setdefault(name, []).append(failure.message)
print(json.dumps(told))
"""
LAYOUTS = {
    "a file": ["--bind", "{outside}/notes.md", "{root}/notes.md"],
    "a file in a folder that is read-only": [
        "--ro-bind",
        "{root}",
        "{root}",
        "--bind",
        "{outside}/notes.md",
        "{root}/notes.md",
    ],
    "a file that is read-only": ["--ro-bind", "{outside}/notes.md", "{root}/notes.md"],
}
bubblewrap = shutil.which("bwrap")
works = bubblewrap is not None and subprocess.run([bubblewrap, "--bind", "/", "/", "true"], check=False).returncode == 0


@pytest.mark.skipif(not works, reason="needs bubblewrap, to mount")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_is_written_in_place_or_told(tmp_path: Path, layout: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
        (folder / "notes.md").write_text("as it was")
    mounts = [one.format(root=root, outside=outside) for one in LAYOUTS[layout]]
    argv = [str(bubblewrap), "--bind", "/", "/", *mounts, sys.executable, "-c", PROGRAM, str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ}, timeout=60)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["left"] == ["notes.md"]
    assert (root / "notes.md").read_text() == "as it was"
    if layout == "a file that is read-only":
        assert "Read-only file system" in told["longer"]
        assert (outside / "notes.md").read_text() == "as it was"
        return
    assert told["longer"] == [False, "longer than before"]
    assert told["shorter"] == [False, "short"]
    assert (outside / "notes.md").read_text() == "short"
    assert "mount point" in told["remove"] or "Read-only" in told["remove"]
    assert told["code"] == ("mount_point" if "mount point" in told["remove"] else "forbidden")


@pytest.mark.skipif(not works, reason="needs bubblewrap, to have no power over modes")
def test_its_backup_stays_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "root" / "folder"
    folder.mkdir(parents=True)
    for name in ("notes.md", "linked", "read-only"):
        (folder / name).write_text("one")
    (tmp_path / "other").hardlink_to(folder / "linked")
    (folder / "read-only").chmod(0o444)
    folder.chmod(0o555)
    argv = [str(bubblewrap), "--bind", "/", "/", "--cap-drop", "ALL", sys.executable, "-c", BACKUPS_PROGRAM]
    done = subprocess.run([*argv, str(folder.parent)], capture_output=True, text=True, check=False, timeout=60)
    folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    told: dict[str, list[str]] = json.loads(done.stdout)
    assert told["notes.md"] == ["one", "two"]
    assert (folder / "notes.md").read_text() == "three"
    assert "more than one hard link" in told["linked"][0]
    assert (tmp_path / "other").read_text() == "one"
    assert all("Permission denied" in text for text in told["read-only"])
    kept = [path.parent.name for path in sorted((tmp_path / "root" / ".backups").rglob("*Z"))]
    assert kept == ["linked", "notes.md", "notes.md", "read-only"], "what failed is kept once"
