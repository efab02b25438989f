"""The skill packages of an agent: those that a session is offered, and those that it has loaded."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent_common.protocol import PackageFault
from agent_common.protocol.authority import Access, Authority
from agent_common.telemetry import logger

from ...errors import ToolFailure
from ...ports import LoadedSkill, PackageCatalog, ToolContext
from ...workspace import PromptFileAuthors, SafePath
from . import front_matter, scanner
from .files import MAX_COPY_BYTES, PackageFiles, copy_files, list_package_files
from .scanner import SKIPPED, WARNED, PackageScanner, SkillPackage
from .sources import BUNDLED_NEEDS, is_project, package_sources

SKILL_TOOL = "skill"
MAX_CACHED_LENGTH = 32 * 1024 * 1024
"""Characters of loaded packages that are kept in memory for all sessions."""
ENTRY_OVERHEAD = 300
"""Characters that an entry counts beside its text, and each of its files too."""
MAX_LISTED = 100
"""Files of a package that the model is shown."""
MAX_PROMPT_READ = 150_000
"""Characters of changed front matter that are read for a prompt: the server waits for about a tenth of a second."""
HELD_BACK = "an agent that had read text from outside has written it, or nobody knows who has: a person must save it"
MAX_LOGGED = 20
"""Faults that one scan writes to the log."""

RequireSpace = Callable[[Path, int, ToolContext], Awaitable[None]]
"""Raises ToolFailure unless there is space for a number of bytes at a path."""

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A package as a session first loaded it, unchanged until it leaves the cache."""

    package: SkillPackage
    body: str
    files: PackageFiles

    @property
    def weight(self) -> int:
        """The memory that it takes, in about as many characters."""
        return len(self.body) + ENTRY_OVERHEAD * (1 + len(self.files.files))


class SkillLibrary:
    """Scans for packages at each request, so that a new session is offered those just saved. Safe in any thread."""

    def __init__(
        self,
        workspace: Path,
        home: Path | None = None,
        extra_folders: Sequence[Path] = (),
        *,
        require_space: RequireSpace | None = None,
        authors: PromptFileAuthors | None = None,
    ) -> None:
        """`home` is the user's home folder, None for no such source; `extra_folders` hold further packages;
        `require_space` enforces the size limit of scratch folders; `authors` knows which packages no person has
        reviewed."""
        self._authors = authors
        self._workspace = workspace
        self._home = home
        self._extra_folders = extra_folders
        self._require_space = require_space
        self._last_scan = PackageScanner()
        self._loaded: OrderedDict[tuple[str, str], _Loaded] = OrderedDict()
        self._size = 0

    def packages(self, max_characters: float = math.inf) -> tuple[SkillPackage, ...]:
        """Scan and return the packages. At most `max_characters` of changed front matter are read."""
        return self._reviewed(self._scan(max_characters).packages)

    def _scan(self, max_characters: float = math.inf) -> PackageScanner:
        before = self._last_scan
        there = package_sources(self._workspace, self._home, self._extra_folders)
        now = self._last_scan = scanner.scan(self._workspace, there, before, max_characters)
        new = [(path, note) for path, note in now.notes.items() if before.notes.get(path) != note]
        for path, (event, reason) in new[:MAX_LOGGED]:
            log.warning(event, path=str(path), reason=reason)
        if len(new) > MAX_LOGGED:
            log.warning("more skill packages have faults", count=len(new) - MAX_LOGGED)
        return now

    def _reviewed(self, packages: Sequence[SkillPackage]) -> tuple[SkillPackage, ...]:
        """Return the packages that may be offered: not those of the workspace that no person has reviewed, nor those
        there whose authors are not kept, since commands can make more files than are watched."""
        if self._authors is None or not any(one.inside for one in packages):
            return tuple(packages)
        watched = self._authors.watched()
        is_unreviewed = self._authors.is_unreviewed
        return tuple(
            one
            for one in packages
            if not one.inside
            or not (is_unreviewed(one.file.path) or (is_project(one.source) and one.file.path not in watched))
        )

    def list_packages(self) -> Sequence[tuple[str, str]]:
        return [(package.name, package.description) for package in self.packages() if not package.person_only]

    def catalog(self) -> PackageCatalog:
        scanned = self._scan()
        reviewed = self._reviewed(scanned.packages)
        packages = [
            {
                "name": package.name,
                "description": package.description,
                **({"invocation": "person"} if package.person_only else {}),
                **({"warning": package.warning} if package.warning else {}),
            }
            for package in reviewed
        ]
        held_back = {one.folder.path: (SKIPPED, HELD_BACK) for one in scanned.packages if one not in reviewed}
        notes = sorted({**scanned.notes, **held_back}.items())
        faults = [
            PackageFault(path=str(path), loaded=event == WARNED, reason=reason) for path, (event, reason) in notes
        ]
        return PackageCatalog(packages, faults)

    def offered(self, authority: Authority, tools: Collection[str]) -> tuple[SkillPackage, ...]:
        """Return the packages that an agent with these tools may load: those its rules do not deny, also those that
        only a person may name. Reads MAX_PROMPT_READ characters at most."""
        if SKILL_TOOL not in tools:
            return ()
        return tuple(
            package
            for package in self.packages(MAX_PROMPT_READ)
            if authority.decide(Access(SKILL_TOOL, subjects=(package.name,))).action != "deny"
            and (package.source != "bundled" or BUNDLED_NEEDS.get(package.name, SKILL_TOOL) in tools)
        )

    async def load(self, name: str, context: ToolContext) -> LoadedSkill:
        key = (context.session_id, name)
        known = self._loaded.get(key)
        loaded = known or await asyncio.to_thread(self._read_package, name, context.packages[name])
        loaded = self._cache(key, loaded)
        if loaded.package.inside or not _listed_paths(loaded):
            return _to_loaded_skill(loaded, loaded.package.folder.path)
        folder = context.scratch / "skills" / name
        if known is not None and await asyncio.to_thread(_has_entries, context.scratch, folder):
            return _to_loaded_skill(loaded, folder)
        try:
            if self._require_space is not None:
                await self._require_space(folder, loaded.files.size, context)
            target = SafePath(context.scratch, folder, str(folder))
            missing = await asyncio.to_thread(copy_files, loaded.files.files, loaded.package.folder, target)
        except ToolFailure as failure:
            return replace(
                _to_loaded_skill(loaded, folder), note=f"not all of its files could be put there: {failure.message}"
            )
        return replace(_to_loaded_skill(loaded, folder), note=f"{missing} of its files are gone" if missing else "")

    def _read_package(self, name: str, source: str) -> _Loaded:
        """Read a package from the source where the session found it, even if another source has the name now."""
        there = next(
            (one for one in package_sources(self._workspace, self._home, self._extra_folders) if one.name == source),
            None,
        )
        package = scanner.find_package(self._workspace, there, name) if there is not None else None
        if package is None:
            gone = f"name: package {name!r} was there when this session began, and is gone"
            raise ToolFailure(gone, kind="unavailable")
        if not self._reviewed([package]):
            text = (
                f"name: package {name!r} was changed by an agent that had read text from outside; a person must save it"
            )
            raise ToolFailure(text, kind="denied")
        with package.file.open() as file:
            data = file.read(scanner.MAX_FILE_BYTES)
        try:
            body = front_matter.body(data.decode("utf-8-sig", errors="replace"))
        except front_matter.InvalidPackage as fault:
            raise ToolFailure(f"name: package {name!r} cannot be read: {fault}", kind="unavailable") from None
        files = list_package_files(package.folder)
        return _Loaded(package, body, files if package.inside else files.limit_size(MAX_COPY_BYTES))

    def _cache(self, key: tuple[str, str], loaded: _Loaded) -> _Loaded:
        """Return the session's cached package; cache this one if there is none."""
        if key not in self._loaded:
            self._loaded[key] = loaded
            self._size += loaded.weight
        self._loaded.move_to_end(key)
        while self._size > MAX_CACHED_LENGTH and len(self._loaded) > 1:
            self._size -= self._loaded.popitem(last=False)[1].weight
        return self._loaded[key]


def _listed_paths(loaded: _Loaded) -> list[str]:
    return [file.path for file in loaded.files.files if file.path != loaded.package.file.path.name]


def _to_loaded_skill(loaded: _Loaded, folder: Path) -> LoadedSkill:
    listed = _listed_paths(loaded)
    more = len(listed[MAX_LISTED:]) + loaded.files.left_out
    file = str(loaded.package.file.path) if loaded.package.inside else ""
    if not listed and not more:
        return LoadedSkill(loaded.body, file)
    return LoadedSkill(loaded.body, file, str(folder), tuple(listed[:MAX_LISTED]), more)


def _has_entries(scratch: Path, folder: Path) -> bool:
    try:
        return bool(SafePath(scratch, folder, str(folder)).entries(1)[0])
    except ToolFailure:
        return False
