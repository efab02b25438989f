"""Scan the sources for packages. A file that has not changed since the last scan is not opened again."""

from __future__ import annotations

import codecs
import math
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from ...errors import ToolFailure
from ...workspace import (
    A_LINK,
    ARCHIVES,
    MAX_LINK_STEPS,
    PACKAGE_FILE,
    PackageWalk,
    SafePath,
    TooFar,
    is_below,
    is_nearly_package,
    is_package_file,
    resolve_links,
)
from . import front_matter, model_policy
from .front_matter import FrontMatter, InvalidPackage
from .model_policy import POLICY_FILE, keeps_from_models
from .sources import PackageSource

MAX_FILE_BYTES = 256 * 1024
"""Bytes of a SKILL.md."""
MAX_PACKAGES = 200
"""Packages of all sources; further ones are skipped."""
MAX_ENTRIES = 400
"""Entries of a source that are scanned."""
MAX_TEXTS = 20
"""Markdown files beside packages that are looked at, whether they are meant as packages."""
STEP_COST = 5
"""Characters of front matter whose reading costs as much as resolving one step of a path."""
SKIPPED = "skill package not loaded"
HIDDEN = "skill package hidden by another one"
WARNED = "skill package is loaded otherwise than it says"

TOO_MUCH = "holds too much besides packages, so that not all of it was looked into: move it elsewhere"
IN_SOURCE = "lies in the folder of packages itself: give it a folder of its own"

_FENCE = re.compile(rb"\n---[ \t\r]*(?:\n|$)")
"""The closing fence of the front matter, or a later such line."""

Signature = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SkillPackage:
    """A valid package."""

    name: str
    description: str
    source: str
    """Name of the source that it was found in."""
    folder: SafePath
    file: SafePath
    """The SKILL.md."""
    inside: bool
    """Whether it is in the workspace, where the agent can read its files."""
    person_only: bool = False
    """Whether a model is not offered it, and only a person may name it."""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class KnownPackage:
    """The result of reading a SKILL.md: a package, or the reason why it is invalid."""

    signature: Signature
    found: SkillPackage | str


@dataclass(frozen=True, slots=True)
class PackageScanner:
    """The result of one scan. Replaced as a whole, never changed."""

    packages: tuple[SkillPackage, ...] = ()
    """In the order of their sources, then by name; each name once."""
    notes: Mapping[Path, tuple[str, str]] = field(default_factory=dict[Path, tuple[str, str]])
    """Faults: path -> the log event, and the reason."""
    known: Mapping[Path, KnownPackage] = field(default_factory=dict[Path, KnownPackage])
    """Folder in a source -> what this scan read there."""


def scan(
    workspace: Path, sources: Sequence[PackageSource], before: PackageScanner, max_characters: float = math.inf
) -> PackageScanner:
    """Return the packages of these sources. Time and memory are bounded whatever the folders hold; never fails.

    At most `max_characters` of front matter are read; files that changed beyond them are left to the next scan.
    """
    return _Scan(workspace, before, max_characters).scan(sources)


def find_package(workspace: Path, source: PackageSource, name: str) -> SkillPackage | None:
    """Return the package of that name in one source; None if there is none."""
    return next((one for one in scan(workspace, [source], PackageScanner()).packages if one.name == name), None)


class _NotAPackage(Exception):
    """The folder holds no SKILL.md."""


class _Scan:
    def __init__(self, workspace: Path, before: PackageScanner, max_characters: float) -> None:
        self._workspace = Path(os.path.realpath(workspace))
        self._before = before
        self._left = max_characters
        self._found: dict[str, SkillPackage] = {}
        self._notes: dict[Path, tuple[str, str]] = {}
        self._known: dict[Path, KnownPackage] = {}
        self._texts: list[tuple[PackageSource, Path]] = []

    def scan(self, sources: Sequence[PackageSource]) -> PackageScanner:
        for source in sources:
            for at, package in self._packages_of(source):
                self._add(source.folder / at, package)
        for source, text in self._texts[:MAX_TEXTS]:
            self._note_text(source, text)
        return PackageScanner(tuple(self._found.values()), self._notes, self._known)

    def _add(self, at: Path, package: SkillPackage) -> None:
        first = self._found.get(package.name)
        if first is None and len(self._found) == MAX_PACKAGES:
            self._notes[at] = (SKIPPED, f"there are {MAX_PACKAGES} packages already")
        elif first is None:
            self._found[package.name] = package
        elif first.folder != package.folder:
            self._notes[at] = (HIDDEN, f"{package.name} is in {first.folder.path} too, and that comes first")

    def _packages_of(self, source: PackageSource) -> list[tuple[PurePosixPath, SkillPackage]]:
        """Return the packages of a source with their folders in it. Those named as their folder come first, and then
        those that lie higher, so that no other takes their name."""
        found: list[tuple[PurePosixPath, SkillPackage]] = []
        walk = PackageWalk(source.folder, partial(self._may_follow, source), partial(self._note_passed, source))
        entries = self._entries(source)
        for entry, file in (*self._own_file(source, entries), *walk.packages(entries)):
            at = source.folder / entry
            try:
                known = self._unchanged(source, at / file) or self._read_package(source, at, file)
            except _NotAPackage:
                continue
            except InvalidPackage as fault:
                self._notes[at] = (SKIPPED, str(fault))
                continue
            self._known[at / file] = known
            if isinstance(known.found, str):
                self._notes[at] = (SKIPPED, known.found)
                continue
            if known.found.warning:
                self._notes[at] = (WARNED, known.found.warning)
            elif known.found.name != at.name:
                self._notes[at] = (WARNED, f"its name is {known.found.name}, as its front matter says")
            found.append((entry, known.found))
        if not walk.whole:
            self._notes.setdefault(source.folder, (SKIPPED, TOO_MUCH))
        with_packages = {entry.parts[:1] for entry, _ in found}
        self._texts += [(source, source.folder / one) for one in walk.texts if one.parent.parts not in with_packages]
        return sorted(found, key=lambda one: (one[0].name != one[1].name, len(one[0].parts), one[1].name))

    def _entries(self, source: PackageSource) -> list[tuple[str, bool]]:
        """Return the entries of a source, each with whether it is a folder, or a link that may lead to one."""
        try:
            entries, whole = self._safe_path(source.folder, source.folder).entries(MAX_ENTRIES)
        except ToolFailure as failure:
            if not isinstance(failure.__cause__, FileNotFoundError):
                self._notes[source.folder] = (SKIPPED, failure.message)
            elif source.required:
                self._notes[source.folder] = (SKIPPED, "there is no such folder")
            return []
        if not whole:
            self._notes[source.folder] = (SKIPPED, f"only {MAX_ENTRIES} of its entries are scanned")
        return sorted((name, stat.S_ISLNK(about.st_mode) or stat.S_ISDIR(about.st_mode)) for name, about in entries)

    def _own_file(self, source: PackageSource, entries: list[tuple[str, bool]]) -> list[tuple[PurePosixPath, str]]:
        """Return a SKILL.md of the source itself, if the operator has named a package in place of a folder of them."""
        found = [(PurePosixPath(), name) for name, _ in entries if is_package_file(name)][:1]
        if source.required:
            return found
        self._notes.update({source.folder / name: (SKIPPED, IN_SOURCE) for _, name in found})
        return []

    def _may_follow(self, source: PackageSource, link: PurePosixPath) -> bool:
        """Return whether a link may lead to a folder of packages: where agents can write, only within the workspace."""
        if source.trusted:
            return True
        try:
            self._resolve(source, source.folder / link)
        except InvalidPackage as fault:
            self._notes[source.folder / link] = (SKIPPED, str(fault))
            return False
        return True

    def _note_passed(self, source: PackageSource, passed: PurePosixPath, reason: str) -> None:
        at = source.folder / passed
        if reason is A_LINK:
            try:
                real = self._resolve(source, at)
                top = self._resolve(source, source.folder / passed.parts[0])
            except InvalidPackage as fault:
                reason = str(fault)
            else:
                if is_below(real, source.folder) or is_below(real, top):
                    return  # found without the link
        self._notes[at] = (SKIPPED, reason)

    def _note_text(self, source: PackageSource, at: Path) -> None:
        """Note an archive, and a text with the front matter of a package, as other products have them in one file."""
        if at.name.lower().endswith(ARCHIVES):
            self._notes[at] = (SKIPPED, "is an archive, and a package is a folder: unpack it")
            return
        known = self._unchanged(source, at)
        if known is None and self._left > 0:
            try:
                real = self._resolve(source, at)
                about, data = self._read_head(self._safe_path(real, real.parent))
            except (InvalidPackage, ToolFailure):
                return
            is_misnamed = at.stem == at.parent.name or (is_nearly_package(at.name) and at.parent != source.folder)
            name = PACKAGE_FILE if is_misnamed else f"{at.stem}/{PACKAGE_FILE}"
            is_package = isinstance(_parse_head(data, about.st_size, at.stem), FrontMatter)
            reason = f"is a file, and a package is a folder: call it {name}" if is_package else ""
            known = KnownPackage(_signature(about), reason)
        if known is not None:
            self._known[at] = known
            if isinstance(known.found, str) and known.found:
                self._notes[at] = (SKIPPED, known.found)

    def _unchanged(self, source: PackageSource, file: Path) -> KnownPackage | None:
        """Return what the last scan found here if the file is unchanged, without opening it; else None."""
        known = self._before.known.get(file)
        if known is None or (isinstance(known.found, SkillPackage) and known.found.source != source.name):
            return None
        policy = _signature_at(file.parent / POLICY_FILE) if isinstance(known.found, SkillPackage) else ()
        return known if known.signature == (*_signature_at(file), *policy) else None

    def _read_package(self, source: PackageSource, at: Path, name: str) -> KnownPackage:
        if self._left <= 0:
            raise InvalidPackage("too much has changed at once: it is read at the next look")
        folder = self._resolve(source, at)
        real = self._resolve(source, folder / name)
        file = self._safe_path(real, real.parent)
        try:
            about, data = self._read_head(file)
        except ToolFailure as failure:
            if isinstance(failure.__cause__, FileNotFoundError | NotADirectoryError):
                if (at / name).is_symlink():
                    raise InvalidPackage(f"{name} is a link to a file that is not there") from None
                raise _NotAPackage from None
            raise InvalidPackage(failure.message) from None
        head = _parse_head(data, about.st_size, at.name)
        if isinstance(head, str):
            return KnownPackage(_signature(about), head)
        policy, is_kept, fault = self._read_policy(source, folder)
        package = SkillPackage(
            head.name,
            head.description,
            source.name,
            self._safe_path(folder, folder),
            file,
            is_below(folder, self._workspace),
            head.person_only or is_kept,
            "; ".join(filter(None, (head.warning, fault))),
        )
        return KnownPackage((*_signature(about), *policy), package)

    def _read_policy(self, source: PackageSource, folder: Path) -> tuple[Signature, bool, str]:
        """Return the signature of a package's policy, whether it keeps the package from models, and why it cannot be
        read, if so."""
        about = _signature_at(folder / POLICY_FILE)
        if not about:
            return about, False, ""
        try:
            real = self._resolve(source, folder / POLICY_FILE)
            with self._safe_path(real, real.parent).open() as opened:
                about = _signature(os.fstat(opened.fileno()))
                data = opened.read(model_policy.MAX_BYTES + 1)
            self._left -= len(data)
            return about, keeps_from_models(data), ""
        except (InvalidPackage, ToolFailure) as fault:
            return about, True, f"{POLICY_FILE} cannot be read, so that only a person may name the package: {fault}"

    def _read_head(self, file: SafePath) -> tuple[os.stat_result, bytes]:
        """Return the state of a file and its first bytes. Raises ToolFailure."""
        with file.open() as opened:
            about = os.fstat(opened.fileno())
            data = opened.read(front_matter.MAX_BYTES)
        fence = _FENCE.search(data)
        self._left -= fence.start() if fence else len(data)
        return about, data

    def _safe_path(self, path: Path, root: Path) -> SafePath:
        """Return a path to open: below the workspace, where commands can write, every folder on the way is checked;
        elsewhere only those below `root`."""
        return SafePath(self._workspace if is_below(path, self._workspace) else root, path, path.name)

    def _resolve(self, source: PackageSource, path: Path) -> Path:
        """Return the path with links resolved. Raises InvalidPackage if an untrusted source leads out of the
        workspace."""
        try:
            real, steps = resolve_links(path)
        except TooFar:
            self._left -= STEP_COST * MAX_LINK_STEPS
            raise InvalidPackage("is a link that leads through too many others") from None
        self._left -= STEP_COST * steps
        inside = is_below(real, self._workspace)
        if not source.trusted and not inside:
            raise InvalidPackage("is a link that leads out of the workspace")
        if source.required and inside:
            raise InvalidPackage("is a link into the workspace, where the agent can change what the operator has named")
        return real


def _signature(about: os.stat_result) -> Signature:
    return (about.st_dev, about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _signature_at(path: Path) -> Signature:
    """Return the signature of what is at this path, for a link of the link itself; nothing if nothing is there."""
    try:
        return _signature(os.lstat(path))
    except OSError:
        return ()


def _parse_head(head: bytes, size: int, folder: str) -> FrontMatter | str:
    """Return the front matter of a SKILL.md of `size` bytes that begins with `head`, or the fault."""
    if size > MAX_FILE_BYTES:
        return f"{PACKAGE_FILE} is larger than {MAX_FILE_BYTES // 1024} KiB"
    try:
        return front_matter.parse(codecs.getincrementaldecoder("utf-8-sig")().decode(head), folder)
    except UnicodeDecodeError:
        return f"{PACKAGE_FILE} is not UTF-8 text"
    except InvalidPackage as fault:
        return str(fault)
