"""Limit the space of files that the server writes for callers."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from ...errors import ToolFailure
from ...sandbox import Confinement, Quota
from ..safe_path import SafePath

OWN_BYTES = 16 * 1024 * 1024
OWN_FILES = 2000
"""Limits of one principal's files outside the workspace; folders count as files."""


class WriteQuota:
    """Checks space. Files in the workspace share its quota with commands; personal files elsewhere have small
    limits."""

    def __init__(self, confinement: Confinement, workspace: Path, size: int) -> None:
        """`size` is the maximum size of the workspace in bytes."""
        self._confinement = confinement
        self._quota = Quota.for_size(workspace, size, "the workspace")

    async def require_space(self, safe_path: SafePath, size: int) -> None:
        """Raise ToolFailure if there is no room for `size` more bytes."""
        if safe_path.root == self._quota.folder:
            await self._confinement.require_space(self._quota, size)
            return
        used, files = await asyncio.to_thread(_disk_usage, safe_path.root)
        if used + size > OWN_BYTES or files >= OWN_FILES:
            most = f"{OWN_BYTES // 2**20} MiB and {OWN_FILES} files and folders"
            raise ToolFailure(
                f"there is no room for {size} bytes: your own files are limited to {most}. Delete some first"
            )


def _disk_usage(root: Path) -> tuple[int, int]:
    """Return bytes and number of files and folders below a folder that no command can write to. It looks no further
    where there are OWN_FILES."""
    size = count = 0
    folders = [str(root)]
    while folders and count < OWN_FILES:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                count += 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                with suppress(OSError):  # deleted meanwhile
                    size += entry.stat(follow_symlinks=False).st_size
    return size, count
