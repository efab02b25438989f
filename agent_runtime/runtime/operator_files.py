"""What the operator names decides over the agent, so it must not be where the agent can write."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..connectors import is_changeable
from ..errors import StartError
from ..settings import LOADER, PREFIX, Settings
from ..workspace import Home

WATCHDOG_WORDS = ("off", "reference")


def require_out_of_reach(settings: Settings, home: Home) -> None:
    """Raise StartError that names each file and folder of the operator that the agent's tools and commands can change:
    what they write there would count as the operator's, without a question, and also after they were gone."""
    roots = tuple({home.workspace.resolve(), home.scratches.resolve()})
    found = ((name, _fault(path, roots)) for name, path in _named(settings))
    faults = [f"{PREFIX}{name.upper()}: {fault}" for name, fault in found if fault is not None]
    if faults:
        raise StartError("\n".join(faults))


def _named(settings: Settings) -> Iterator[tuple[str, Path]]:
    yield "skills_dir", settings.skills_path
    yield "mcp_file", settings.mcp_path
    for folder in settings.skill_paths or ():
        yield "skill_paths", folder
    for name in ("constraints_file", "mediation_key_file", "ca_file", "socket"):
        path: Path | None = getattr(settings, name)
        if path is not None:
            yield name, path
    for name in filter(LOADER.is_secret, Settings.model_fields):
        if secret := os.environ.get(f"{LOADER.env_name(name)}_FILE"):
            yield f"{name}_file", Path(secret)
    if settings.watchdog not in WATCHDOG_WORDS:
        yield "watchdog", Path(settings.watchdog)


def _fault(path: Path, roots: Sequence[Path]) -> str | None:
    whole = path.expanduser().absolute()
    real = whole.resolve()
    for root in roots:
        if real.is_relative_to(root) or is_changeable(whole, roots):
            return f"the agent can change {path}, in its workspace or scratch folder; choose one outside of them"
        if root.is_relative_to(real):
            return f"{path} contains {root}, in which the agent writes; choose a folder beside it"
    return None
