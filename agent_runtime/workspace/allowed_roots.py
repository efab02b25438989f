"""The paths that a tool may use: those inside the workspace and the session's scratch, after links are resolved."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolFailure
from .safe_path import SafePath


@dataclass(frozen=True, slots=True)
class AllowedRoots:
    """The folders that a tool may use, as absolute paths without links."""

    workspace: Path
    scratch: Path

    def resolve(self, path: str, field: str = "path") -> SafePath:
        """Resolve a path; a relative one starts in the workspace. Raises ToolFailure, with `field` in its text, if the
        path leads outside of both folders."""
        if not path or "\0" in path:
            raise ToolFailure(f"{field}: must be a file name, without null bytes", kind="invalid")
        try:
            real = Path(os.path.realpath(self.workspace / path))
        except (OSError, ValueError, RecursionError) as error:  # RecursionError: a chain of a thousand links
            raise ToolFailure(f"{field}: {path!r} cannot be resolved: {error}", kind="invalid") from error
        if real.is_relative_to(self.workspace):
            return SafePath(self.workspace, real, str(real.relative_to(self.workspace)))
        if real.is_relative_to(self.scratch):
            return SafePath(self.scratch, real, str(real))
        raise ToolFailure(
            f"{field}: {path} is outside the folders you may use. Allowed: paths in the workspace {self.workspace} "
            f"(relative ones start there) and in your scratch folder {self.scratch}",
            kind="denied",
        )
