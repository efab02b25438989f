"""The skills of an agent: plugins in a folder, tried when they are saved, and offered as tools once they have passed.

What is in service is replaced only by what has passed its trial. Turns keep the tools they began with; a worker of an
earlier build serves them to their end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agent_common.protocol import SkillState
from agent_common.protocol.authority import Authority
from agent_common.telemetry import logger

from ..errors import StoreError, ToolFailure
from ..ports import Events
from ..tools import Tool
from .dependencies import Environments
from .grants import Grants
from .registry import SkillRegistry
from .sources import plugin_files as files
from .sources.source import PluginListing, PluginSource, Stamp, UnreadablePlugin, listed, read
from .sources.staging import Staging
from .sources.versions import PluginVersion, PluginVersions, VersionAuthor
from .sources.watch import watch
from .validation.plugins import Plugin
from .validation.validator import SkillBuild, SkillValidator, SmokeTest, SmokeTestResult
from .workers.pool import WorkerPool
from .workers.process import WorkerSetup

GONE_SECONDS = 0.25
GONE_LOOKS = 5
"""Editors take a file away and put another in its place; only one that stays away is gone."""
SETTLE_SECONDS = 60.0
"""How long a reload waits for the verdicts."""

log = logger(__name__)


class SkillManager:
    """Tool provider for the plugins of a folder. `start` it, then ask for `tools` and `states`; `close` it."""

    def __init__(
        self,
        folder: Path,
        setup: WorkerSetup,
        staging: Staging,
        environments: Environments,
        grants: Grants,
        versions: PluginVersions,
        events: Events,
    ) -> None:
        self.folder = folder.resolve()
        self.versions = versions
        self._staging, self._environments = staging, environments
        self._service = SkillRegistry(events, lambda file: file in self._listing, self._dispatch)
        self._trials = SkillValidator(setup, staging, environments, grants, self._set_aside)
        self._holds = setup.confinement.name != "none"
        self._listing: Mapping[str, PluginListing] = {}
        self._looking = asyncio.Lock()
        self._judging: dict[str, asyncio.Task[None]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def ready(self, authority: Authority) -> None:
        return

    def tools(self) -> Sequence[Tool]:
        return self._service.now.tools

    def states(self) -> Sequence[SkillState]:
        return self._service.now.states

    async def start(self) -> None:
        """Tries every plugin, then watches the folder. One that fails shows in `states` and hinders no other."""
        await asyncio.to_thread(self._staging.clear)
        await asyncio.to_thread(files.sweep, self.folder)
        await self._list()
        for file in await self.versions.present():
            if file not in self._listing:  # taken away while nobody watched
                await self._record_removal(file)
        listing = self._listing.values()
        seen = [one for one in listing if not await self._rest(self._service.plugin(one.file), one)]
        outcomes = await asyncio.gather(*(self._try(self._service.plugin(one.file), one) for one in seen))
        for one, outcome in zip(seen, outcomes, strict=True):  # in the order of the files: it decides who has a name
            try:
                await self._settle(self._service.plugin(one.file), one, outcome)
            except StoreError as error:
                log.error("a skill cannot be recorded yet", file=one.file, error=error.message)
        await asyncio.to_thread(self._environments.prune, self._service.environments())
        self._watching = asyncio.create_task(watch(self.folder, self.look, self._closing), name="watch the skills")

    async def close(self) -> None:
        """Ends all workers."""
        self._closing.set()
        if self._watching is not None:
            await self._watching
        judging = list(self._judging.values())
        for task in judging:
            task.cancel()
        await asyncio.gather(*judging, return_exceptions=True)
        await self._service.close()

    # -- what is saved in the folder

    async def look(self) -> None:
        """Has every plugin judged that was saved since the last look, or that could not be held then."""
        await self._list()
        for plugin in self._service.plugins.values():
            if not plugin.available and self._holds:
                plugin.stamp = None
        self._dispatch()

    async def reload(self) -> None:
        """Looks, and waits for the verdicts."""
        await self.look()
        if self._judging:
            await asyncio.wait(list(self._judging.values()), timeout=SETTLE_SECONDS)

    async def _list(self) -> None:
        async with self._looking:  # what was seen last is the latest there is
            self._listing = await asyncio.to_thread(listed, self.folder)

    def _dispatch(self) -> None:
        for file in {*self._listing, *self._service.plugins}:
            plugin, seen = self._service.plugin(file), self._listing.get(file)
            if (seen is None or seen.stamp != plugin.stamp) and file not in self._judging:
                self._judging[file] = asyncio.create_task(self._judge(plugin), name=f"judge {file}")

    async def _judge(self, plugin: Plugin) -> None:
        """Tries what lies there until it is what was tried."""
        try:
            async with plugin.lock:
                while self._service.knows(plugin):
                    seen = self._listing.get(plugin.file)
                    if seen is None:
                        if await self._is_gone(plugin) and self._service.knows(plugin):  # else it was renamed
                            await self._drop(plugin, None)
                    elif seen.stamp != plugin.stamp:
                        await self._settle(plugin, seen, await self._try(plugin, seen))
                    else:
                        return
        except StoreError as error:  # the next look comes back to it
            log.error("a skill was saved and cannot be recorded yet", file=plugin.file, error=error.message)
        except Exception:
            log.exception("a skill cannot be judged", file=plugin.file)
        finally:  # in one go with the last look at the listing: a save that is seen from here on begins anew
            self._judging.pop(plugin.file, None)

    async def _is_gone(self, plugin: Plugin) -> bool:
        for _ in range(GONE_LOOKS):
            await asyncio.sleep(GONE_SECONDS / GONE_LOOKS)
            await self._list()
            if plugin.file in self._listing:
                return False
        return True

    async def _try(self, plugin: Plugin, seen: PluginListing) -> SkillBuild | ToolFailure:
        """The build that passed, or what is wrong; what is in service already passes as it is."""
        try:
            source = await asyncio.to_thread(read, self.folder, seen)
            active = plugin.active
            if active is not None and active.source.build == source.build and not active.pool.set_aside:
                return active
            return (await self._trials.run(source))[0]
        except UnreadablePlugin as fault:
            return ToolFailure(str(fault))
        except ToolFailure as failure:
            return failure

    async def _settle(self, plugin: Plugin, seen: PluginListing, outcome: SkillBuild | ToolFailure) -> None:
        """Puts into service what has passed; else the last good version stays, or comes back after a restart. Raises
        StoreError, and then what lies there is still to be judged."""
        try:
            if isinstance(outcome, ToolFailure):
                raise outcome
            if outcome is plugin.active:
                plugin.error, plugin.available = None, True
                self._service.publish(plugin)
            else:
                await self._enter(plugin, outcome)
        except ToolFailure as failure:
            if plugin.active is None and failure.kind != "unavailable":
                await self._revive(plugin)
            self._service.fail(plugin, failure)
        plugin.stamp = seen.stamp

    async def _enter(self, plugin: Plugin, build: SkillBuild) -> None:
        async def record() -> int:
            await self.versions.put_back(plugin.file)
            return (await self.versions.keep("saved", build.source)).number

        for renamed in await self._service.enter(plugin, build, record):
            await self._record_removal(renamed.file)
        await self._copy(plugin.file)

    async def _revive(self, plugin: Plugin) -> None:
        """Puts the last good version into service, if there is one."""
        latest = await self.versions.latest(plugin.file)
        source = latest.source() if latest is not None else None
        if latest is None or source is None:
            return

        async def record() -> int:
            return latest.number

        try:
            build, _ = await self._trials.run(await asyncio.to_thread(source.beside, self.folder))
            await self._service.enter(plugin, build, record)
        except ToolFailure as error:
            log.warning("nor is its last good version fit for use", file=plugin.file, error=str(error))

    # -- what the agent changes

    async def create(
        self, file: str, code: bytes, test: SmokeTest | None, author: VersionAuthor
    ) -> tuple[Plugin, SmokeTestResult | None]:
        """Tries the code and, if it passes, saves it as that file and puts it into service. Raises ToolFailure, and
        then nothing has changed; StoreError."""
        return await self._save(PluginSource(file, {file: code}), test, author, created=True)

    async def restore(self, version: PluginVersion, author: VersionAuthor) -> Plugin:
        """Goes back to a version. Raises ToolFailure, StoreError."""
        source = version.source()
        if source is None or set(source.files) != {version.file}:
            raise ToolFailure(f"version: {version.number} of {version.file} is not one file", kind="invalid")
        return (await self._save(source, None, author, created=False))[0]

    async def remove(self, file: str, author: VersionAuthor) -> bool:
        """Takes a plugin away; its history stays. False when there is none. Raises ToolFailure, StoreError."""
        if file not in self._service.plugins:
            return False
        async with self._held(file) as plugin:
            await asyncio.to_thread(files.remove, self.folder / file)
            await self._list()
            if self._service.knows(plugin):
                await self._drop(plugin, author)
        return True

    @asynccontextmanager
    async def _held(self, file: str) -> AsyncGenerator[Plugin]:
        """The plugin of a file, for whoever changes what lies there. While it is waited for it may go: then it is
        another one."""
        while True:
            plugin = self._service.plugin(file)
            async with plugin.lock:
                if self._service.knows(plugin):
                    yield plugin
                    return

    async def _save(
        self, source: PluginSource, test: SmokeTest | None, author: VersionAuthor, *, created: bool
    ) -> tuple[Plugin, SmokeTestResult | None]:
        async with self._held(source.file) as plugin:
            try:
                build, tested = await self._trials.run(
                    await asyncio.to_thread(source.beside, self.folder), test, by_agent=True
                )

                async def record() -> int:
                    # Noted before it takes its place: no code of an agent is ever in service without its name.
                    path = self.folder / source.file
                    beside = await asyncio.to_thread(files.put_beside, path, source.files[source.file])
                    try:
                        entry = await self.versions.keep("created" if created else "restored", source, author)
                        await asyncio.to_thread(files.move, beside, path)
                        await self.versions.put_back(source.file)
                        await self._list()  # while the name is claimed: who is not listed is taken for gone
                    finally:
                        files.discard(beside)
                    plugin.error, plugin.stamp = None, self._stamp(source.file)
                    return entry.number

                await self._service.enter(plugin, build, record)
            finally:
                self._service.forget(plugin)
            await self._copy(source.file)
        return plugin, tested

    def _stamp(self, file: str) -> Stamp | None:
        seen = self._listing.get(file)
        return seen.stamp if seen is not None else None

    # -- the end of a plugin, and its history

    def _set_aside(self, pool: WorkerPool) -> None:
        plugin = self._service.set_aside(pool)
        if plugin is not None and plugin.active is not None and pool.set_aside is not None:
            self.versions.set_aside(plugin.file, plugin.active.source.digest, pool.set_aside)

    async def _rest(self, plugin: Plugin, seen: PluginListing) -> bool:
        """Whether it was set aside in an earlier life, and nobody has saved it since."""
        why = await self.versions.aside(plugin.file)
        if why is None:
            return False
        try:
            if (await asyncio.to_thread(read, self.folder, seen)).digest != why[0]:
                return False
        except UnreadablePlugin:
            return False
        plugin.resting, plugin.stamp = why[1], seen.stamp
        self._service.publish(plugin)
        return True

    async def _drop(self, plugin: Plugin, author: VersionAuthor | None) -> None:
        await self._service.leave(plugin)
        await self._record_removal(plugin.file, author)

    async def _record_removal(self, file: str, author: VersionAuthor | None = None) -> None:
        if await self.versions.removed(file, author) is not None:
            await self._copy(file)

    async def _copy(self, file: str) -> None:
        await asyncio.to_thread(self.versions.copy, await self.versions.latest(file))
