"""Project instructions: AGENTS.md and similar files, of the data directory and of the workspace.

Folders above them are not searched, because they belong to a machine that may be shared. The operator's file in the
data directory is the outermost; no tool and no command can write it. Commands can write files in the workspace, so no
link is followed there and every size is limited. Files in subfolders are only named: the model reads them when it works
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_common.telemetry import logger

from ..home import Home
from ..principal_paths import OPERATOR
from ..safe_path import SafePath
from .authorship import PromptFileAuthors
from .bootstrap import PROMPT_CAPS, BootstrapFile, read_prompt_file
from .nested_files import INSTRUCTION_NAMES, NestedFiles

CAP = PROMPT_CAPS["AGENTS.md"]
MAX_NAMED = 20
_IMPORTS = re.compile(r"@(?:\./)?AGENTS\.md")
"""The whole content of a CLAUDE.md that only imports AGENTS.md."""

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions for work in this workspace."""

    files: Sequence[BootstrapFile] = ()
    """Outermost first, nearest last, without duplicates."""
    nested: Sequence[str] = ()
    """Paths of further files, relative to the workspace."""
    more_nested: bool = False
    """Whether there may be more of these, because not all folders were searched."""
    unreviewed_nested: int = 0
    """How many of these are left out, because an agent made them so and no person has looked at them since."""


def read_instructions(home: Home, principal: str = OPERATOR, authors: PromptFileAuthors | None = None) -> Instructions:
    """Find and read the instructions, as a user's session is shown them. Reads a few files and some thousand names at
    most, in about a millisecond."""
    files: list[BootstrapFile] = []
    for level, source in ((home.data_dir, "operator"), (home.workspace, "workspace")):
        files += _read_folder(level, source, principal, authors if source == "workspace" else None)
    nested = NestedFiles(home.workspace)
    named: list[str] = []
    unreviewed = 0
    for paths in nested.found:
        reviewed = [path for path in paths if authors is None or not authors.is_unreviewed(home.workspace / path)]
        named += reviewed[:1]
        unreviewed += len(paths) - len(reviewed)
    more = not nested.whole or len(named) > MAX_NAMED
    return Instructions(_unique_files(files), named[:MAX_NAMED], more, unreviewed)


def _read_folder(
    folder: Path, source: str, principal: str, authors: PromptFileAuthors | None
) -> Iterator[BootstrapFile]:
    for name in INSTRUCTION_NAMES:
        safe_path = SafePath(folder, folder / name, name)
        if source == "operator" and safe_path.path.is_symlink():
            log.warning("instructions are not read: a link is not followed", path=str(safe_path.path))
        file = read_prompt_file(safe_path, name, CAP, source)
        if file is not None and not _IMPORTS.fullmatch(file.text.strip()):
            yield file.with_author(authors, safe_path.path, principal)


def _unique_files(files: Sequence[BootstrapFile]) -> tuple[BootstrapFile, ...]:
    """Return the files without duplicates. The first of equal ones stays: the operator's, and AGENTS.md."""
    seen: set[str] = set()
    kept: list[BootstrapFile] = []
    for file in files:
        text = file.text.strip()
        if text not in seen:
            seen.add(text)
            kept.append(file)
    return tuple(kept)
