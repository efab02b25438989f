"""The packages of an agent: what a session is told of, and what it loads of that."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent_common.protocol.authority import Access, Authority
from agent_common.telemetry import logger

from ...errors import ToolFailure
from ...ports import LoadedSkill, ToolContext
from ...workspace import SafePath
from . import front_matter, scanner
from .files import LARGEST, PackageFiles, copy, files_of
from .scanner import FILE, PackageScanner, SkillPackage
from .sources import NEEDS, sources

TOOL = "skill"
KEPT = 32 * 1024 * 1024
"""Characters of loaded bodies that are remembered, of all sessions."""
WEIGHT = 300
"""What an entry counts beside its text."""
LISTED = 100
"""Files of a package that the model is told."""
HASTY = 150_000
"""Characters of new front matter that are read while the server waits, which is a good tenth of a second."""
LOGGED = 20
"""Faults that one look writes to the log."""

Admit = Callable[[Path, int, ToolContext], Awaitable[None]]
"""Whether so many bytes have room at a path. Raises ToolFailure."""

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A package as a session has loaded it: the same for as long as the server remembers."""

    package: SkillPackage
    body: str
    files: PackageFiles

    @property
    def weight(self) -> int:
        """About as many characters as it takes memory."""
        return len(self.body) + WEIGHT * (1 + len(self.files.all))


class SkillLibrary:
    """Finds packages anew whenever it is asked, so that a new session has what was saved a moment ago. Any thread."""

    def __init__(
        self, workspace: Path, home: Path | None = None, more: Sequence[Path] = (), *, admit: Admit | None = None
    ) -> None:
        """`home` is the user's, `more` are further folders of packages; `admit` keeps the books of scratch folders."""
        self._workspace, self._home, self._more, self._admit = workspace, home, more, admit
        self._shelf = PackageScanner()
        self._kept: OrderedDict[tuple[str, str], _Loaded] = OrderedDict()
        self._size = 0

    def packages(self, most: float = math.inf) -> tuple[SkillPackage, ...]:
        """All there are now. Looks at files, and reads so many characters of those that have changed."""
        before, there = self._shelf, sources(self._workspace, self._home, self._more)
        now = self._shelf = scanner.look(self._workspace, there, before, most)
        new = [(path, note) for path, note in now.notes.items() if before.notes.get(path) != note]
        for path, (event, reason) in new[:LOGGED]:
            log.warning(event, path=str(path), reason=reason)
        if len(new) > LOGGED:
            log.warning("more skill packages have faults", count=len(new) - LOGGED)
        return now.packages

    def names(self) -> Sequence[tuple[str, str]]:
        return [(package.name, package.description) for package in self.packages()]

    def offered(self, authority: Authority, tools: Collection[str]) -> tuple[SkillPackage, ...]:
        """Those that an agent with these tools is told of: none that its rules deny. Bounded in time as well."""
        if TOOL not in tools:
            return ()
        return tuple(
            package
            for package in self.packages(HASTY)
            if authority.decide(Access(TOOL, subjects=(package.name,))).action != "deny"
            and (package.source != "bundled" or NEEDS.get(package.name, TOOL) in tools)
        )

    async def load(self, name: str, context: ToolContext) -> LoadedSkill:
        key = (context.session_id, name)
        known = self._kept.get(key)
        loaded = known or await asyncio.to_thread(self._read, name, context.packages[name])
        loaded = self._keep(key, loaded)
        if loaded.package.inside or not _listed(loaded.files):
            return _answer(loaded, loaded.package.folder.path)
        folder = context.scratch / "skills" / name
        if known is not None and await asyncio.to_thread(_is_there, context.scratch, folder):
            return _answer(loaded, folder)
        try:
            if self._admit is not None:
                await self._admit(folder, loaded.files.size, context)
            target = SafePath(context.scratch, folder, str(folder))
            missing = await asyncio.to_thread(copy, loaded.files.all, loaded.package.folder, target)
        except ToolFailure as failure:
            return replace(_answer(loaded, folder), note=f"not all of its files could be put there: {failure.message}")
        return replace(_answer(loaded, folder), note=f"{missing} of its files are gone" if missing else "")

    def _read(self, name: str, source: str) -> _Loaded:
        """From where it was found when the session began: what another source has by now is not it."""
        there = next((one for one in sources(self._workspace, self._home, self._more) if one.name == source), None)
        package = scanner.only(self._workspace, there, name) if there is not None else None
        if package is None:
            gone = f"name: package {name!r} was there when this session began, and is gone"
            raise ToolFailure(gone, kind="unavailable")
        with package.file.open() as file:
            data = file.read(scanner.LARGEST)
        try:
            body = front_matter.body(data.decode("utf-8-sig", errors="replace"))
        except front_matter.InvalidPackage as fault:
            raise ToolFailure(f"name: package {name!r} cannot be read: {fault}", kind="unavailable") from None
        files = files_of(package.folder)
        return _Loaded(package, body, files if package.inside else files.within(LARGEST))

    def _keep(self, key: tuple[str, str], loaded: _Loaded) -> _Loaded:
        """The first one that was read for the session stays."""
        if key not in self._kept:
            self._kept[key] = loaded
            self._size += loaded.weight
        self._kept.move_to_end(key)
        while self._size > KEPT and len(self._kept) > 1:
            self._size -= self._kept.popitem(last=False)[1].weight
        return self._kept[key]


def _listed(files: PackageFiles) -> list[str]:
    return [file.path for file in files.all if file.path != FILE]


def _answer(loaded: _Loaded, folder: Path) -> LoadedSkill:
    listed = _listed(loaded.files)
    more = len(listed[LISTED:]) + loaded.files.left_out
    file = str(loaded.package.file.path) if loaded.package.inside else ""
    if not listed and not more:
        return LoadedSkill(loaded.body, file)
    return LoadedSkill(loaded.body, file, str(folder), tuple(listed[:LISTED]), more)


def _is_there(scratch: Path, folder: Path) -> bool:
    try:
        return bool(SafePath(scratch, folder, str(folder)).entries(1)[0])
    except ToolFailure:
        return False
