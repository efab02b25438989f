"""Which plugins are in service. One at a time goes in or out, so that a name always belongs to one of them."""

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
    """The plugins by file, and the catalog that follows from them."""

    def __init__(
        self, events: Events, is_on_disk: Callable[[str], bool], on_names_released: Callable[[], None]
    ) -> None:
        self._events, self._is_on_disk, self._on_names_released = events, is_on_disk, on_names_released
        self._plugins: dict[str, Plugin] = {}
        self._lock = asyncio.Lock()
        self.current = SkillSet()

    @property
    def plugins(self) -> Mapping[str, Plugin]:
        return self._plugins

    def get_plugin(self, file: str) -> Plugin:
        """That of a file, made if need be."""
        return self._plugins.setdefault(file, Plugin(file))

    def environments(self) -> set[Path]:
        """The folders of packages that plugins in service use."""
        active = [plugin.active for plugin in self._plugins.values() if plugin.active is not None]
        return {build.pool.environment for build in active if build.pool.environment is not None}

    def contains(self, plugin: Plugin) -> bool:
        return self._plugins.get(plugin.file) is plugin

    def forget(self, plugin: Plugin) -> None:
        """One that never came into service."""
        if plugin.active is None and self.contains(plugin):
            del self._plugins[plugin.file]

    async def activate(self, plugin: Plugin, build: SkillBuild, record: Callable[[], Awaitable[int]]) -> list[Plugin]:
        """Puts a build into service under the number that `record` gives it, in place of the one before. The plugins
        whose names it took over, because their files are gone: that is how one is renamed. Raises ToolFailure when a
        name belongs to another plugin, and whatever `record` raises; then the build is at its end."""
        try:
            async with self._lock:
                renamed = self._claim_names(plugin, build)
                number = await record()
                for other in renamed:
                    del self._plugins[other.file]
                self._plugins[plugin.file] = plugin  # its file may have been gone for a moment, and its place with it
                before, names = plugin.active, set(plugin.names)
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
        """Takes a plugin out of service."""
        del self._plugins[plugin.file]
        await self._retire(plugin)
        self._release_names(set(plugin.names))

    def record_failure(self, plugin: Plugin, failure: ToolFailure) -> None:
        """What lies there cannot be taken; what is in service stays."""
        before = plugin.error
        plugin.error, plugin.available = failure.message, failure.kind != "unavailable"
        if plugin.error == before and not plugin.available:
            return  # tried again, and nothing new
        log.warning("a skill was not taken", file=plugin.file, error=failure.message)
        self.publish(plugin)

    def disable(self, pool: WorkerPool) -> Plugin | None:
        """The pool of a plugin takes no more calls; the plugin, if it is in service."""
        for plugin in self._plugins.values():
            if plugin.active is not None and plugin.active.pool is pool:
                log.warning("a skill was set aside", file=plugin.file, error=pool.disabled_reason)
                self.publish(plugin)
                return plugin
        return None

    def publish(self, plugin: Plugin) -> None:
        """Makes the catalog anew after a change, and tells everybody who watches."""
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
        """Whoever waits for a name may have it now."""
        waiting = [other for other in self._plugins.values() if other.has_name_clash] if names else []
        for other in waiting:
            other.stamp = None
        if waiting:
            self._on_names_released()
