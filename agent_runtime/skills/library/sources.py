"""The folders that skill packages are looked for in, in order (docs/how-to/skill-packages.md#where-they-are-found)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .symlinks import TooFar, is_below, resolve_links

SKILL_FOLDERS = (".agents/skills", ".claude/skills")
BUNDLED = Path(__file__).with_name("bundled")
BUNDLED_NEEDS: Mapping[str, str] = {"write-a-skill": "create_skill"}
"""Bundled package -> the tool without which it is of no use."""


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A folder of packages."""

    name: str
    """Kept with a session: a package is looked for where it was when the session began."""
    folder: Path
    trusted: bool
    """False: commands may write there, and nothing there leads out of the workspace."""
    required: bool = False
    """Somebody has named it, so that it should be there."""


def package_sources(
    workspace: Path, home: Path | None = None, extra_folders: Sequence[Path] = ()
) -> tuple[PackageSource, ...]:
    """The folders in their order: the project's, the user's, the product's, those of AGENT_SKILL_PATHS.

    There is no walk up from the workspace: what lies around it is not the project's. One folder is one source, also
    where home and workspace are the same or links make them so; the first of its names holds.
    """
    workspace = workspace.resolve()
    wanted = [(f"project:{name}", workspace / name, False) for name in SKILL_FOLDERS]
    wanted += [(f"user:{name}", home / name, False) for name in SKILL_FOLDERS if home is not None]
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
    return tuple(found.values())
