"""The disk that is made of the image, as a microVM boots it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_host.fleet.machine import load_image

from .engine import FOLDER, ROOT, UID, image

pytestmark = pytest.mark.timeout(300)
DISK = FOLDER / "rootfs.ext4"
ENVIRONMENT = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}


def run(*command: str | Path) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def about(path: str) -> dict[str, str]:
    """What the disk says of a file: type, mode, user, group."""
    words = run("debugfs", "-R", f'stat "{path}"', DISK).replace(":", ": ").split()
    return {name: words[words.index(f"{name}:") + 1] for name in ("Type", "Mode", "User", "Group")}


def test_the_file_system_is_whole() -> None:
    run("e2fsck", "-fn", DISK)
    features = run("dumpe2fs", "-h", DISK)
    assert "has_journal" not in features


def test_the_fleet_takes_what_stands_beside_it(tmp_path: Path) -> None:
    for name in ("rootfs.ext4", "image.json"):
        (tmp_path / name).symlink_to(FOLDER / name)
    for name in ("vmlinuz", "initrd.gz"):
        (tmp_path / name).touch()
    taken = load_image(tmp_path)
    assert taken.command == ("tini", "--", "agent-runtime", "serve")
    assert (taken.uid, taken.gid, taken.cwd) == (UID, UID, "/data")
    assert dict(one.split("=", 1) for one in image()["Config"]["Env"]).items() <= taken.env.items()
    assert json.loads((FOLDER / "image.json").read_text())["Labels"]["org.opencontainers.image.title"]


def test_whose_the_files_are() -> None:
    assert about("/data") == {"Type": "directory", "Mode": "0750", "User": str(UID), "Group": str(UID)}
    assert about("/tmp")["Mode"] == "01777"
    roots = ("/", "/opt/agent/bin/agent-runtime", "/usr/bin/tini", "/etc/passwd", "/proc", "/sys", "/dev", "/run")
    for path in roots:
        assert (about(path)["User"], about(path)["Group"]) == ("0", "0"), path


def test_somebody_else_without_privileges_makes_the_same_bytes(tmp_path: Path) -> None:
    """In a user namespace of his own, where nothing can be given to another user."""
    again = tmp_path / "rootfs.ext4"
    run("unshare", "--user", sys.executable, ROOT / "images/rootfs.py", FOLDER / "oci", again)
    assert run("cmp", DISK, again) == ""
    assert (tmp_path / "image.json").read_bytes() == (FOLDER / "image.json").read_bytes()
