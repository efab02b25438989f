"""Copy each build to a folder of its own that nothing changes afterwards.

Every worker imports the code that was validated, not a later save. The folder is emptied at start; a copy
is deleted when nothing refers to it any more, not even a turn that began before the last save.
"""

from __future__ import annotations

import itertools
import os
import shutil
import weakref
from dataclasses import dataclass, field
from pathlib import Path

from .grants import Grant
from .source import PluginSource


@dataclass(frozen=True, eq=False)
class StagedBuild:
    """One build, on disk for as long as this object exists."""

    folder: Path
    plugin: Path
    """The file or package in `folder`."""
    environment: Path | None = None
    """The folder of its dependencies; None if it has none."""
    grant: Grant = field(default_factory=Grant)
    """The secrets and hosts that the operator allows."""

    def discard(self) -> None:
        """Delete the copy now, although an exception may still refer to this object until it is collected."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Staging:
    """A folder of builds. Call `clear` first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)

    def clear(self) -> None:
        """Delete the builds of earlier processes."""
        for entry in os.scandir(self._folder):
            shutil.rmtree(entry.path, ignore_errors=True)

    def stage(self, source: PluginSource, environment: Path | None = None, grant: Grant | None = None) -> StagedBuild:
        """Write a build. Raises OSError."""
        folder = self._folder / f"{next(self._numbers)}-{source.build_digest[:12]}"
        folder.mkdir()
        try:
            for name, data in {**source.helpers, **source.files}.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            _make_readable(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        staged = StagedBuild(folder, folder / source.file, environment, grant or Grant())
        weakref.finalize(staged, shutil.rmtree, folder, ignore_errors=True)
        return staged


def _make_readable(folder: Path) -> None:
    """Let workers read, even under a strict umask of the server; the folder above restricts access."""
    for path, folders, files in os.walk(folder):
        for name in (".", *folders):
            os.chmod(os.path.join(path, name), 0o755)  # noqa: S103  it holds code, and no secret
        for name in files:
            os.chmod(os.path.join(path, name), 0o644)
