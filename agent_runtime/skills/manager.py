"""Manage the skills of an agent: validate plugins when they are saved, and offer those that pass as tools.

A build in service is replaced only by one that passed validation. A turn keeps the tools that it began with; workers of
the earlier build serve it to its end.
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
from .registry import SkillRegistry
from .sources import plugin_files as files
from .sources.grants import Grants
from .sources.source import PluginListing, PluginSource, Stamp, UnreadablePlugin, list_plugins, read_plugin
from .sources.staging import Staging
from .sources.versions import PluginVersion, PluginVersions, VersionAuthor
from .sources.watch import watch
from .validation.plugins import Plugin
from .validation.validator import SkillBuild, SkillValidator, SmokeTest, SmokeTestResult
from .workers.pool import WorkerPool
from .workers.process import WorkerSetup

GONE_SECONDS = 0.25
GONE_CHECKS = 5
"""An editor may delete a file and write another in its place; a plugin is gone once it stays away this long."""
RELOAD_SECONDS = 60.0
"""How long a reload waits for the validations."""

log = logger(__name__)


class SkillManager:
    """Provide the plugins of a folder as tools. Call `start` first and `close` at the end."""

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
        self._staging = staging
        self._environments = environments
        self._registry = SkillRegistry(events, lambda file: file in self._listing, self._start_validations)
        self._validator = SkillValidator(setup, staging, environments, grants, self._disable)
        self._can_confine = setup.confinement.name != "none"
        self._listing: Mapping[str, PluginListing] = {}
        self._listing_lock = asyncio.Lock()
        self._validations: dict[str, asyncio.Task[None]] = {}
        self._watch_task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def ready(self, authority: Authority) -> None:
        return

    def tools(self) -> Sequence[Tool]:
        return self._registry.current.tools

    def states(self) -> Sequence[SkillState]:
        return self._registry.current.states

    async def start(self) -> None:
        """Validate every plugin, then watch the folder. A plugin that fails shows in `states` and does not affect
        others."""
        await asyncio.to_thread(self._staging.clear)
        await asyncio.to_thread(files.remove_leftovers, self.folder)
        await self._refresh_listing()
        for file in await self.versions.present_files():
            if file not in self._listing:  # removed while the runtime was not running
                await self._record_removal(file)
        # People's plugins first: a name that one of them declares is never that of a plugin which an agent has written.
        agents = await self.versions.files_by_agents()
        listing = sorted(self._listing.values(), key=lambda one: one.file in agents)
        seen = [one for one in listing if not await self._stays_disabled(self._registry.get_plugin(one.file), one)]
        outcomes = await asyncio.gather(*(self._build(self._registry.get_plugin(one.file), one) for one in seen))
        # In the order of the files, which decides which plugin gets a name.
        for one, outcome in zip(seen, outcomes, strict=True):
            try:
                await self._apply_outcome(self._registry.get_plugin(one.file), one, outcome)
            except StoreError as error:
                log.error("a skill cannot be recorded yet", file=one.file, error=error.message)
        await asyncio.to_thread(self._environments.prune, self._registry.environments())
        self._watch_task = asyncio.create_task(watch(self.folder, self.scan, self._closing), name="watch the skills")

    async def close(self) -> None:
        """Stop watching and validating, and end all workers."""
        self._closing.set()
        if self._watch_task is not None:
            await self._watch_task
        running = list(self._validations.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._registry.close()

    # -- what is saved in the folder

    async def scan(self) -> None:
        """Start the validation of every plugin that was saved since the last scan, or that could not be confined
        then."""
        await self._refresh_listing()
        for plugin in self._registry.plugins.values():
            if not plugin.available and self._can_confine:
                plugin.stamp = None
        self._start_validations()

    async def reload(self) -> None:
        """Scan the folder and wait for the validations."""
        await self.scan()
        if self._validations:
            await asyncio.wait(list(self._validations.values()), timeout=RELOAD_SECONDS)

    async def _refresh_listing(self) -> None:
        async with self._listing_lock:  # so that an older listing never replaces a newer one
            self._listing = await asyncio.to_thread(list_plugins, self.folder)

    def _start_validations(self) -> None:
        for file in {*self._listing, *self._registry.plugins}:
            plugin = self._registry.get_plugin(file)
            seen = self._listing.get(file)
            if (seen is None or seen.stamp != plugin.stamp) and file not in self._validations:
                self._validations[file] = asyncio.create_task(self._validate(plugin), name=f"validate {file}")

    async def _validate(self, plugin: Plugin) -> None:
        """Validate the plugin on disk until the validated version is the one on disk."""
        try:
            async with plugin.lock:
                while self._registry.contains(plugin):
                    seen = self._listing.get(plugin.file)
                    if seen is None:
                        if await self._is_gone(plugin) and self._registry.contains(plugin):  # else it was renamed
                            await self._deactivate(plugin, None)
                    elif seen.stamp != plugin.stamp:
                        await self._apply_outcome(plugin, seen, await self._build(plugin, seen))
                    else:
                        return
        except StoreError as error:  # the next scan tries again
            log.error("a skill was saved and cannot be recorded yet", file=plugin.file, error=error.message)
        except Exception:
            log.exception("a skill cannot be validated", file=plugin.file)
        finally:  # no await since the listing was last read: a save that is seen later starts a new task
            self._validations.pop(plugin.file, None)

    async def _is_gone(self, plugin: Plugin) -> bool:
        for _ in range(GONE_CHECKS):
            await asyncio.sleep(GONE_SECONDS / GONE_CHECKS)
            await self._refresh_listing()
            if plugin.file in self._listing:
                return False
        return True

    async def _build(self, plugin: Plugin, listing: PluginListing) -> SkillBuild | ToolFailure:
        """Return the build that passed, or the failure. Code that is in service already is not validated again."""
        try:
            source = await asyncio.to_thread(read_plugin, self.folder, listing)
            active = plugin.active
            if (
                active is not None
                and active.source.build_digest == source.build_digest
                and not active.pool.disabled_reason
            ):
                return active
            return (await self._validator.validate(source, by_agent=await self._is_by_agent(source)))[0]
        except UnreadablePlugin as fault:
            return ToolFailure(str(fault))
        except ToolFailure as failure:
            return failure

    async def _apply_outcome(self, plugin: Plugin, listing: PluginListing, outcome: SkillBuild | ToolFailure) -> None:
        """Activate a build that passed. After a failure the last good version stays, or comes back after a restart.
        Raises StoreError; the plugin on disk is then validated again later."""
        try:
            if isinstance(outcome, ToolFailure):
                raise outcome
            if outcome is plugin.active:
                plugin.error = None
                plugin.available = True
                self._registry.publish(plugin)
            else:
                await self._activate(plugin, outcome)
        except ToolFailure as failure:
            if plugin.active is None and failure.kind != "unavailable":
                await self._restore_last_good(plugin)
            self._registry.record_failure(plugin, failure)
        plugin.stamp = listing.stamp

    async def _activate(self, plugin: Plugin, build: SkillBuild) -> None:
        async def record() -> int:
            await self.versions.enable(plugin.file)
            return (await self.versions.save("saved", build.source)).number

        for renamed in await self._registry.activate(plugin, build, record):
            await self._record_removal(renamed.file)
        await self._copy_to_workspace(plugin.file)

    async def _restore_last_good(self, plugin: Plugin) -> None:
        """Activate the last good version, if there is one."""
        latest = await self.versions.latest(plugin.file)
        source = latest.source() if latest is not None else None
        if latest is None or source is None:
            return

        async def record() -> int:
            return latest.number

        try:
            whole = await asyncio.to_thread(source.with_helpers, self.folder)
            build, _ = await self._validator.validate(whole, by_agent=latest.author is not None)
            await self._registry.activate(plugin, build, record)
        except ToolFailure as error:
            log.warning("the last good version of a skill fails too", file=plugin.file, error=str(error))

    async def _is_by_agent(self, source: PluginSource) -> bool:
        """Whether an agent has written the code that is in the folder."""
        latest = await self.versions.latest(source.file)
        return latest is not None and latest.author is not None and latest.digest == source.digest

    # -- what the agent changes

    async def belongs_to_people(self, file: str) -> bool:
        """Whether the file is in the folder, and a person has put it there or changed it last."""
        await self._refresh_listing()
        seen = self._listing.get(file)
        if seen is None:
            return False
        try:
            return not await self._is_by_agent(await asyncio.to_thread(read_plugin, self.folder, seen))
        except UnreadablePlugin:
            return True

    async def create(
        self, file: str, code: bytes, test: SmokeTest | None, author: VersionAuthor
    ) -> tuple[Plugin, SmokeTestResult | None]:
        """Validate the code and, if it passes, save it as that file and activate it. Raises ToolFailure, and then
        nothing has changed; StoreError."""
        return await self._save(PluginSource(file, {file: code}), test, author, created=True)

    async def restore(self, version: PluginVersion, author: VersionAuthor) -> Plugin:
        """Save and activate an earlier version again. Raises ToolFailure, StoreError."""
        source = version.source()
        if source is None or set(source.files) != {version.file}:
            raise ToolFailure(f"version: {version.number} of {version.file} is not one file", kind="invalid")
        return (await self._save(source, None, author, created=False))[0]

    async def remove(self, file: str, author: VersionAuthor) -> bool:
        """Remove a plugin; its history stays. Return False when there is none. Raises ToolFailure, StoreError."""
        if file not in self._registry.plugins:
            return False
        async with self._locked_plugin(file) as plugin:
            await asyncio.to_thread(files.remove, self.folder / file)
            await self._refresh_listing()
            if self._registry.contains(plugin):
                await self._deactivate(plugin, author)
        return True

    @asynccontextmanager
    async def _locked_plugin(self, file: str) -> AsyncGenerator[Plugin]:
        """Yield the plugin of a file with its lock held, to change the file. A plugin that was removed while this
        waited for the lock is replaced by a new one."""
        while True:
            plugin = self._registry.get_plugin(file)
            async with plugin.lock:
                if self._registry.contains(plugin):
                    yield plugin
                    return

    async def _save(
        self, source: PluginSource, test: SmokeTest | None, author: VersionAuthor, *, created: bool
    ) -> tuple[Plugin, SmokeTestResult | None]:
        async with self._locked_plugin(source.file) as plugin:
            try:
                build, tested = await self._validator.validate(
                    await asyncio.to_thread(source.with_helpers, self.folder), test, by_agent=True
                )

                async def record() -> int:
                    # Recorded before the file takes its place: no code of an agent is in service without its author.
                    path = self.folder / source.file
                    temporary = await asyncio.to_thread(files.write_temporary, path, source.files[source.file])
                    try:
                        entry = await self.versions.save("created" if created else "restored", source, author)
                        await asyncio.to_thread(files.move, temporary, path)
                        await self.versions.enable(source.file)
                        # While the name is claimed: a plugin that is not listed counts as gone.
                        await self._refresh_listing()
                    finally:
                        files.discard(temporary)
                    plugin.error = None
                    plugin.stamp = self._current_stamp(source.file)
                    return entry.number

                await self._registry.activate(plugin, build, record)
            finally:
                self._registry.forget(plugin)
            await self._copy_to_workspace(source.file)
        return plugin, tested

    def _current_stamp(self, file: str) -> Stamp | None:
        seen = self._listing.get(file)
        return seen.stamp if seen is not None else None

    # -- the end of a plugin, and its history

    def _disable(self, pool: WorkerPool) -> None:
        plugin = self._registry.disable(pool)
        if plugin is not None and plugin.active is not None and pool.disabled_reason is not None:
            self.versions.disable(plugin.file, plugin.active.source.digest, pool.disabled_reason)

    async def _stays_disabled(self, plugin: Plugin, listing: PluginListing) -> bool:
        """Whether the plugin was disabled by an earlier process and has not been saved since."""
        why = await self.versions.get_disabled(plugin.file)
        if why is None:
            return False
        try:
            if (await asyncio.to_thread(read_plugin, self.folder, listing)).digest != why[0]:
                return False
        except UnreadablePlugin:
            return False
        plugin.disabled_before_start = why[1]
        plugin.stamp = listing.stamp
        self._registry.publish(plugin)
        return True

    async def _deactivate(self, plugin: Plugin, author: VersionAuthor | None) -> None:
        await self._registry.deactivate(plugin)
        await self._record_removal(plugin.file, author)

    async def _record_removal(self, file: str, author: VersionAuthor | None = None) -> None:
        if await self.versions.save_removal(file, author) is not None:
            await self._copy_to_workspace(file)

    async def _copy_to_workspace(self, file: str) -> None:
        await asyncio.to_thread(self.versions.copy_to_workspace, await self.versions.latest(file))
