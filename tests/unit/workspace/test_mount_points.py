"""A file that is a mount point, as `docker run -v ./notes.md:/work/notes.md` makes it, is written in place."""

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
