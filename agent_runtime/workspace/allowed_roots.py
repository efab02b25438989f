"""The paths that a tool may use: those inside the workspace and the session's scratch, after links are resolved."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolFailure
from .alike_names import existing_alike
from .safe_path import SafePath
from .symlinks import TooFar, resolve_links

MAX_PATH_BYTES = 4096
"""The system takes no longer path."""
MAX_STEPS = 1024
"""Folders and links on the way to a file."""


@dataclass(frozen=True, slots=True)
class AllowedRoots:
    """The folders that a tool may use, as absolute paths without links."""

    workspace: Path
    scratch: Path

    def resolve(self, path: str, field: str = "path") -> SafePath:
        """Resolve a path; a relative one starts in the workspace. A name that nothing has is that of the only entry
        which reads the same. Raises ToolFailure, with `field` in its text, if the path leads outside of both
        folders."""
        if not path or "\0" in path:
            raise ToolFailure(f"{field}: must be a file name, without null bytes", kind="invalid")
        if len(path) > MAX_PATH_BYTES or len(path.encode(errors="replace")) > MAX_PATH_BYTES:
            raise ToolFailure(f"{field}: must not be longer than {MAX_PATH_BYTES} bytes", kind="invalid")
        try:
            real = self._real_path(path)
        except TooFar:
            text = f"{field}: cannot be resolved: it leads through more than {MAX_STEPS} folders and links"
            raise ToolFailure(text, kind="invalid") from None
        except (OSError, ValueError) as error:
            raise ToolFailure(f"{field}: {path!r} cannot be resolved: {error}", kind="invalid") from error
        root = self._root_of(real)
        if root is None:
            raise ToolFailure(
                f"{field}: {path} is outside the folders you may use. Allowed: paths in the workspace {self.workspace} "
                f"(relative ones start there) and in your scratch folder {self.scratch}",
                kind="denied",
            )
        return SafePath(root, real, str(real.relative_to(root) if root == self.workspace else real))

    def _real_path(self, path: str) -> Path:
        real, _ = resolve_links(self.workspace / os.fsdecode(os.fsencode(path)), MAX_STEPS)
        root = self._root_of(real)
        alike = real if root is None else existing_alike(real, root)
        return real if alike == real else resolve_links(alike, MAX_STEPS)[0]

    def _root_of(self, real: Path) -> Path | None:
        return next((root for root in (self.workspace, self.scratch) if real.is_relative_to(root)), None)
