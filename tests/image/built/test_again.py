"""The same source on the same base gives the same image, wherever and whenever it is built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from images.rootfs import Layout

from .engine import FOLDER, ROOT

SECONDS = 420
pytestmark = pytest.mark.timeout(SECONDS + 60)


def digest(folder: Path) -> str:
    [image] = json.loads((folder / "oci/index.json").read_text())["manifests"]
    return image["digest"]


def test_built_anew_it_is_the_same(tmp_path: Path) -> None:
    """Nothing is taken over but the base's tar."""
    for base in FOLDER.glob("base-*.tar"):
        shutil.copy2(base, tmp_path)
    try:
        subprocess.run((ROOT / "images/build.sh", tmp_path), check=True, timeout=SECONDS, env=os.environ)
        first, again = Layout(FOLDER / "oci"), Layout(tmp_path / "oci")
        assert [layer.name for layer in again.layers()] == [layer.name for layer in first.layers()]
        assert again.config() == first.config()
        assert digest(tmp_path) == digest(FOLDER)
    finally:
        store = tmp_path / "store"  # half a gigabyte, of which the engine has mounted a part
        subprocess.run(("umount", "--quiet", "--recursive", store / "overlay"), check=False, timeout=60)
        shutil.rmtree(store, ignore_errors=True)
