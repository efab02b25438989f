"""Looks through the sources for packages. A file that has not changed since the last look is not opened again."""

from __future__ import annotations

import codecs
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import ToolFailure
from ...workspace import SafePath
from . import front_matter
from .front_matter import FrontMatter, InvalidPackage
from .sources import PackageSource
from .symlinks import MAX_STEPS, TooFar, is_below, resolve_links

SKILL_FILE = "SKILL.md"
MAX_FILE_BYTES = 256 * 1024
"""Bytes of a SKILL.md."""
MAX_PACKAGES = 200
"""Packages."""
MAX_ENTRIES = 400
"""Entries of a source that are looked at."""
STEP_COST = 5
"""Characters of front matter that cost as much as a step on the way to a package."""
SKIPPED = "skill package not loaded"
HIDDEN = "skill package hidden by another one"
MISNAMED = "skill package is called otherwise than its folder"

_FENCE = re.compile(rb"\n---[ \t\r]*(?:\n|$)")
"""The end of the front matter, or what lies beyond it."""

Signature = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SkillPackage:
    """A package that was found."""

    name: str
    description: str
    source: str
    """Name of the source."""
    folder: SafePath
    file: SafePath
    """The SKILL.md."""
    inside: bool
    """It lies in the workspace, where the agent can reach its files."""


@dataclass(frozen=True, slots=True)
class KnownPackage:
    """A SKILL.md as it was read, and what it was: a package or the reason why it is none."""

    signature: Signature
    found: SkillPackage | str


@dataclass(frozen=True, slots=True)
class PackageScanner:
    """What was found in one look. Replaced as a whole, never changed."""

    packages: tuple[SkillPackage, ...] = ()
    """In the order of their sources, by name; each name once."""
    notes: Mapping[Path, tuple[str, str]] = field(default_factory=dict[Path, tuple[str, str]])
    """What is wrong in the sources: path -> what became of it, and why."""
    known: Mapping[Path, KnownPackage] = field(default_factory=dict[Path, KnownPackage])
    """Folder in a source -> what it was last time."""


def scan(
    workspace: Path, sources: Sequence[PackageSource], before: PackageScanner, max_characters: float = math.inf
) -> PackageScanner:
    """All packages of these sources. Bounded whatever lies there, and never fails.

    `max_characters` are the characters of front matter that are read; what changed beyond them is left to the next
    look.
    """
    return _Scan(workspace, before, max_characters).scan(sources)


def find_package(workspace: Path, source: PackageSource, name: str) -> SkillPackage | None:
    """The package of that name in one source."""
    return next((one for one in scan(workspace, [source], PackageScanner()).packages if one.name == name), None)


class _NotAPackage(Exception):
    """The folder holds no SKILL.md: it is something else."""


class _Scan:
    def __init__(self, workspace: Path, before: PackageScanner, max_characters: float) -> None:
        self._workspace, self._before, self._left = Path(os.path.realpath(workspace)), before, max_characters
        self._found: dict[str, SkillPackage] = {}
        self._notes: dict[Path, tuple[str, str]] = {}
        self._known: dict[Path, KnownPackage] = {}

    def scan(self, sources: Sequence[PackageSource]) -> PackageScanner:
        for source in sources:
            for entry, package in self._packages_of(source):
                self._add(source.folder / entry, package)
        return PackageScanner(tuple(self._found.values()), self._notes, self._known)

    def _add(self, at: Path, package: SkillPackage) -> None:
        first = self._found.get(package.name)
        if first is None and len(self._found) == MAX_PACKAGES:
            self._notes[at] = (SKIPPED, f"there are {MAX_PACKAGES} packages already")
        elif first is None:
            self._found[package.name] = package
        elif first.folder != package.folder:
            self._notes[at] = (HIDDEN, f"{package.name} is in {first.folder.path} too, and that comes first")

    def _packages_of(self, source: PackageSource) -> list[tuple[str, SkillPackage]]:
        """Those of a source; the ones that are called as their folder first, so that no other takes their name."""
        found: list[tuple[str, SkillPackage]] = []
        for entry in self._entries(source):
            at = source.folder / entry
            try:
                known = self._unchanged(source, at) or self._read_package(source, at)
            except _NotAPackage:
                continue
            except InvalidPackage as fault:
                self._notes[at] = (SKIPPED, str(fault))
                continue
            self._known[at] = known
            if isinstance(known.found, str):
                self._notes[at] = (SKIPPED, known.found)
                continue
            if known.found.name != entry:
                self._notes[at] = (MISNAMED, f"it goes by its name {known.found.name}")
            found.append((entry, known.found))
        return sorted(found, key=lambda one: (one[0] != one[1].name, one[1].name))

    def _entries(self, source: PackageSource) -> Iterator[str]:
        """Names of folders, and of links that may lead to some."""
        try:
            entries, whole = self._safe_path(source.folder, source.folder).entries(MAX_ENTRIES)
        except ToolFailure as failure:
            if not isinstance(failure.__cause__, FileNotFoundError):
                self._notes[source.folder] = (SKIPPED, failure.message)
            elif source.required:
                self._notes[source.folder] = (SKIPPED, "there is no such folder")
            return
        if not whole:
            self._notes[source.folder] = (SKIPPED, f"only {MAX_ENTRIES} of its entries are looked at")
        for name, about in sorted(entries):
            if name.startswith("."):
                continue
            if stat.S_ISLNK(about.st_mode) or (stat.S_ISDIR(about.st_mode) and _has_file(source.folder / name)):
                yield name

    def _unchanged(self, source: PackageSource, at: Path) -> KnownPackage | None:
        """What was found here last time, if it is the very same file. Nothing is opened for that."""
        known = self._before.known.get(at)
        if known is None or (isinstance(known.found, SkillPackage) and known.found.source != source.name):
            return None
        try:
            return known if known.signature == _signature(os.lstat(at / SKILL_FILE)) else None
        except OSError:
            return None

    def _read_package(self, source: PackageSource, at: Path) -> KnownPackage:
        if self._left <= 0:
            raise InvalidPackage("too much has changed at once: it is read at the next look")
        folder = self._resolve(source, at)
        real = self._resolve(source, folder / SKILL_FILE)
        file = self._safe_path(real, real.parent)
        try:
            with file.open() as opened:
                about = os.fstat(opened.fileno())
                data = opened.read(front_matter.MAX_BYTES)
        except ToolFailure as failure:
            if isinstance(failure.__cause__, FileNotFoundError | NotADirectoryError):
                raise _NotAPackage from None
            raise InvalidPackage(failure.message) from None
        fence = _FENCE.search(data)
        self._left -= fence.start() if fence else len(data)
        head = _parse_head(data, about.st_size)
        if isinstance(head, str):
            return KnownPackage(_signature(about), head)
        inside = is_below(folder, self._workspace)
        package = SkillPackage(head.name, head.description, source.name, self._safe_path(folder, folder), file, inside)
        return KnownPackage(_signature(about), package)

    def _safe_path(self, path: Path, root: Path) -> SafePath:
        """A path to be opened. Where commands can write it is reached step by step, elsewhere from its root."""
        return SafePath(self._workspace if is_below(path, self._workspace) else root, path, path.name)

    def _resolve(self, source: PackageSource, path: Path) -> Path:
        """Where a path leads. Raises BadPackage when that is out of the workspace and must not be."""
        try:
            real, steps = resolve_links(path)
        except TooFar:
            self._left -= STEP_COST * MAX_STEPS
            raise InvalidPackage("is a link that leads through too many others") from None
        self._left -= STEP_COST * steps
        if not source.trusted and not is_below(real, self._workspace):
            raise InvalidPackage("is a link that leads out of the workspace")
        return real


def _has_file(folder: Path) -> bool:
    """Whether it is worth a look; quickly told of the many folders that are something else."""
    try:
        os.lstat(folder / SKILL_FILE)
    except OSError as error:
        return not isinstance(error, FileNotFoundError | NotADirectoryError)
    return True


def _signature(about: os.stat_result) -> Signature:
    return (about.st_dev, about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _parse_head(head: bytes, size: int) -> FrontMatter | str:
    """What a SKILL.md that begins so says of itself, or what is wrong with it."""
    if size > MAX_FILE_BYTES:
        return f"{SKILL_FILE} is larger than {MAX_FILE_BYTES // 1024} KiB"
    try:
        return front_matter.parse(codecs.getincrementaldecoder("utf-8-sig")().decode(head))
    except UnicodeDecodeError:
        return f"{SKILL_FILE} is not UTF-8 text"
    except InvalidPackage as fault:
        return str(fault)
