"""Keep which plugins are in service. One at a time is activated, so that a name always belongs to one plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from agent_common.telemetry import logger

from ..errors import ToolFailure
from ..ports import Events
from .validation.plugins import Plugin, SkillSet, build_skill_set
from .validation.validator import SkillBuild
from .workers.pool import WorkerPool

log = logger(__name__)


class SkillRegistry:
    """The plugins by file, and the tools and states that follow from them."""

    def __init__(
        self, events: Events, is_on_disk: Callable[[str], bool], on_names_released: Callable[[], None]
    ) -> None:
        self._events = events
        self._is_on_disk = is_on_disk
        self._on_names_released = on_names_released
        self._plugins: dict[str, Plugin] = {}
        self._lock = asyncio.Lock()
        self.current = SkillSet()

    @property
    def plugins(self) -> Mapping[str, Plugin]:
        return self._plugins

    def get_plugin(self, file: str) -> Plugin:
        """Return the plugin of a file; a new one if there is none."""
        return self._plugins.setdefault(file, Plugin(file))

    def environments(self) -> set[Path]:
        """Return the package folders that plugins in service use."""
        active = [plugin.active for plugin in self._plugins.values() if plugin.active is not None]
        return {build.pool.environment for build in active if build.pool.environment is not None}

    def contains(self, plugin: Plugin) -> bool:
        return self._plugins.get(plugin.file) is plugin

    def forget(self, plugin: Plugin) -> None:
        """Drop a plugin that was never in service."""
        if plugin.active is None and self.contains(plugin):
            del self._plugins[plugin.file]

    async def activate(self, plugin: Plugin, build: SkillBuild, record: Callable[[], Awaitable[int]]) -> list[Plugin]:
        """Put a build into service, in place of the one before, as the version that `record` returns.

        Return the plugins whose names it took over because their files are gone: that is how a plugin is renamed.
        Raises ToolFailure when a name belongs to another plugin, and what `record` raises; the build is then closed.
        """
        try:
            async with self._lock:
                renamed = self._claim_names(plugin, build)
                number = await record()
                renamed = [other for other in renamed if self.contains(other)]  # one may have been dropped meanwhile
                for other in renamed:
                    del self._plugins[other.file]
                self._plugins[plugin.file] = plugin  # it may have been dropped while its file was gone for a moment
                before = plugin.active
                names = set(plugin.names)
                plugin.activate(build, number)
                self.publish(plugin)
        except BaseException:
            await build.pool.close()
            raise
        if before is not None:
            await before.pool.retire()
        self._release_names(names - set(plugin.names))
        for other in renamed:
            await self._retire(other)
        return renamed

    async def deactivate(self, plugin: Plugin) -> None:
        """Take a plugin out of service."""
        del self._plugins[plugin.file]
        await self._retire(plugin)
        self._release_names(set(plugin.names))

    def record_failure(self, plugin: Plugin, failure: ToolFailure) -> None:
        """Note why the plugin on disk was refused; the build in service stays."""
        before = plugin.error
        plugin.error = failure.message
        plugin.available = failure.kind != "unavailable"
        if plugin.error == before and not plugin.available:
            return  # it was retried with the same result
        log.warning("a skill was refused", file=plugin.file, error=failure.message)
        self.publish(plugin)

    def disable(self, pool: WorkerPool) -> Plugin | None:
        """Publish that a pool takes no more calls. Return its plugin, or None if that is not in service."""
        for plugin in self._plugins.values():
            if plugin.active is not None and plugin.active.pool is pool:
                log.warning("a skill was disabled", file=plugin.file, error=pool.disabled_reason)
                self.publish(plugin)
                return plugin
        return None

    def publish(self, plugin: Plugin) -> None:
        """Rebuild the tools and states after a change, and emit `skills-changed`."""
        self.current = build_skill_set(self._plugins.values())
        states = [state.model_dump(exclude_none=True) for state in plugin.states()] if self.contains(plugin) else []
        fault = {"error": plugin.error} if plugin.error else {}
        self._events.emit("skills-changed", None, file=plugin.file, skills=states, **fault)

    async def close(self) -> None:
        await asyncio.gather(*(plugin.active.pool.close() for plugin in self._plugins.values() if plugin.active))

    def _claim_names(self, plugin: Plugin, build: SkillBuild) -> list[Plugin]:
        wanted = {skill.spec.name for skill in build.skills}
        owners = [other for other in self._plugins.values() if other is not plugin and wanted & set(other.names)]
        holders = [owner for owner in owners if self._is_on_disk(owner.file)]
        plugin.has_name_clash = bool(holders)
        for owner in holders:
            name = min(wanted & set(owner.names))
            raise ToolFailure(f"name: {name} is taken by {owner.file}; take another name", kind="invalid")
        return owners

    async def _retire(self, plugin: Plugin) -> None:
        self.publish(plugin)
        if plugin.active is not None:
            await plugin.active.pool.retire()

    def _release_names(self, names: set[str]) -> None:
        """Have the plugins validated again that were refused for a name which may be free now."""
        waiting = [other for other in self._plugins.values() if other.has_name_clash] if names else []
        for other in waiting:
            other.stamp = None
        if waiting:
            self._on_names_released()
