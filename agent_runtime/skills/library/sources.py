"""The folders that are scanned for skill packages, in order (docs/how-to/skill-packages.md#where-they-are-found)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...workspace import PACKAGE_FOLDERS, TooFar, is_below, resolve_links

BUNDLED = Path(__file__).with_name("bundled")
BUNDLED_NEEDS: Mapping[str, str] = {"write-a-skill": "create_skill"}
"""Bundled package -> the tool without which it is useless."""


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A folder of packages."""

    name: str
    """Stored with a session, which loads a package from the source where it was when the session began."""
    folder: Path
    trusted: bool
    """False if commands can write there: then no link may lead out of the workspace."""
    required: bool = False
    """Whether the operator has named it, so that its absence is a fault."""


def package_sources(
    workspace: Path, home: Path | None = None, extra_folders: Sequence[Path] = ()
) -> tuple[PackageSource, ...]:
    """Return the folders in order: those of AGENT_SKILL_PATHS, the bundled one, the project's, the user's. Agents can
    write the project's, and no package there takes the place of one that the operator or the product has.

    Folders above the workspace are not searched: they are not the project's. A folder that is reached by several names,
    by links or because home and workspace are the same, is one source under the first of them.
    """
    workspace = workspace.resolve()
    wanted = [(f"project:{name}", workspace / name, False) for name in PACKAGE_FOLDERS]
    wanted += [(f"user:{name}", home / name, False) for name in PACKAGE_FOLDERS if home is not None]
    wanted += [("bundled", BUNDLED, False)]
    wanted += [(f"path:{path}", path, True) for path in extra_folders]
    found: dict[Path, PackageSource] = {}
    for name, folder, demanded in wanted:
        try:
            real, _ = resolve_links(Path(os.path.abspath(folder)))
        except TooFar:
            continue
        inside = is_below(real, workspace)
        if name.startswith("project:") and not inside:
            continue  # a link that leads out of the workspace
        found.setdefault(real, PackageSource(name, real, not inside, demanded))
    return tuple(sorted(found.values(), key=lambda source: _ORDER[source.name.partition(":")[0]]))


def is_project(source: str) -> bool:
    """Return whether a source is a folder of the workspace, where agents can write."""
    return source.startswith("project:")


_ORDER = {"path": 0, "bundled": 1, "project": 2, "user": 3}
