"""A runtime whose file system has further mounts, as a container has: by bubblewrap."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_BUBBLEWRAP = shutil.which("bwrap")
_TRY = [str(_BUBBLEWRAP), "--dev-bind", "/", "/", "true"]
_WORKS = _BUBBLEWRAP is not None and subprocess.run(_TRY, check=False, capture_output=True).returncode == 0
needs_mounts = pytest.mark.skipif(not _WORKS, reason="needs bubblewrap, to mount")


def mounted(*mounts: str) -> list[str]:
    """What stands before a command that is to see these mounts, also at folders that this machine does not have."""
    top = [Path("/", name) for name in sorted(os.listdir("/"))]
    links = [word for path in top if path.is_symlink() for word in ("--symlink", str(path.readlink()), str(path))]
    rest = [word for path in top if not path.is_symlink() for word in ("--dev-bind", str(path), str(path))]
    return [str(_BUBBLEWRAP), "--die-with-parent", *links, *rest, *mounts]
