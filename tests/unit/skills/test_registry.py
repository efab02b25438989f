"""Which plugins are in service, whatever happens while another one is put there."""

from __future__ import annotations

from typing import Any, cast

from agent_runtime.skills.registry import SkillRegistry
from agent_runtime.skills.sources.source import PluginSource
from agent_runtime.skills.validation.declarations import check_declaration
from agent_runtime.skills.validation.validator import SkillBuild


class Quiet:
    """Watchers who do not listen, and a pool of workers that has none."""

    disabled_reason = None

    def emit(self, kind: str, principal: str | None, /, **facts: Any) -> None: ...

    async def retire(self) -> None: ...

    async def close(self) -> None: ...


def build_of(name: str) -> SkillBuild:
    declared = check_declaration({"name": name, "description": "d", "parameters": {"type": "object"}})
    return SkillBuild(source=PluginSource(f"{name}.py", {}), skills=(declared,), pool=cast("Any", Quiet()))


async def first() -> int:
    return 1


async def test_a_plugin_that_goes_while_its_name_is_taken_over_is_dropped_once() -> None:
    registry = SkillRegistry(Quiet(), is_on_disk=lambda file: file == "new.py", on_names_released=lambda: None)
    old, new = registry.get_plugin("old.py"), registry.get_plugin("new.py")
    await registry.activate(old, build_of("greet"), first)

    async def record() -> int:
        await registry.deactivate(old)
        return 2

    assert await registry.activate(new, build_of("greet"), record) == []
    assert {file: plugin.names for file, plugin in registry.plugins.items()} == {"new.py": ("greet",)}


async def test_a_renamed_plugin_keeps_its_name() -> None:
    registry = SkillRegistry(Quiet(), is_on_disk=lambda file: file == "new.py", on_names_released=lambda: None)
    old, new = registry.get_plugin("old.py"), registry.get_plugin("new.py")
    await registry.activate(old, build_of("greet"), first)
    assert await registry.activate(new, build_of("greet"), first) == [old]
    assert list(registry.plugins) == ["new.py"]
