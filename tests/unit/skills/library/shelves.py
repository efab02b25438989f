"""Packages on disk, for the tests of the library."""

from __future__ import annotations

import os
from pathlib import Path

from agent_runtime.ports import ToolContext
from agent_runtime.skills import SkillLibrary


def package(folder: Path, name: str, description: str = "For tests.", body: str = "Do it.", **files: str) -> Path:
    """A package in a folder of packages; `files` are by name, with `__` for a slash and `_` for a dot."""
    at = folder / name
    at.mkdir(parents=True, exist_ok=True)
    (at / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")
    for path, text in files.items():
        file = at / path.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return at


def write(folder: Path, name: bytes) -> None:
    """A file whose name need not be text."""
    Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("x")


class Ground:
    """A workspace, a home, a further folder, and a scratch folder."""

    def __init__(self, path: Path) -> None:
        self.workspace, self.home, self.more = path / "workspace", path / "home", path / "more"
        self.scratch = path / "scratch"
        for folder in (self.workspace, self.home, self.more, self.scratch):
            folder.mkdir()
        self.library = SkillLibrary(self.workspace, self.home, [self.more])

    @property
    def project(self) -> Path:
        return self.workspace / ".agents" / "skills"

    @property
    def user(self) -> Path:
        return self.home / ".agents" / "skills"

    def names(self) -> list[str]:
        """Of the packages there are, without the product's own."""
        return [name for name, _ in self.library.list_packages() if name != "write-a-skill"]

    def sources(self) -> dict[str, str]:
        return {package.name: package.source for package in self.library.packages()}

    def copies(self, name: str) -> Path:
        """Where the files of a package from outside of the workspace are put."""
        return self.scratch / "skills" / name

    def context(self, session: str = "ses_1", **packages: str) -> ToolContext:
        """A session that began now, unless `packages` say otherwise."""
        known = {name.replace("_", "-"): source for name, source in packages.items()} or self.sources()
        return ToolContext(session, "call_1", self.workspace, self.scratch, packages=known)
