"""No setting is accepted and then ignored: something outside of the definitions reads each one."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel, Field, create_model

from agent_common.protocol import CompactionPolicy, SmartRecovery
from agent_host.settings import HostSettings
from agent_runtime.settings import Settings as GuestSettings

ROOT = Path(__file__).parents[3]
OF_THE_ENVIRONMENT = {"ca_file"}
"""Read there by `agent_common.net`, for programs without settings too."""


def loads(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Attributes that are read: the last name of what they are read from, and their own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            match node.value:
                case ast.Name(id=holder) | ast.Attribute(attr=holder):
                    yield holder.lower().lstrip("_"), node.attr
                case _:
                    pass


def derived(path: Path) -> dict[str, set[str]]:
    """Properties and functions of the module of settings, with the fields that they read."""
    found: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list
        ):
            found[node.name] |= {name for holder, name in loads(node) if holder == "self"}
    return found


@functools.cache
def loads_outside_settings(folder: Path) -> set[tuple[str, str]]:
    sources = [path for path in folder.rglob("*.py") if path != folder / "settings.py"]
    return {one for path in sources for one in loads(ast.parse(path.read_text()))}


def unread(settings: type[BaseModel], package: str, holder: str = "settings") -> set[str]:
    """Fields that nothing reads, neither itself nor through a property that is read."""
    folder = ROOT / package
    read = {name for at, name in loads_outside_settings(folder) if at.endswith(holder)}
    properties = derived(folder / "settings.py")
    while fresh := {field for name in read & properties.keys() for field in properties[name]} - read:
        read |= fresh
    return set(settings.model_fields) - read - OF_THE_ENVIRONMENT


@pytest.mark.parametrize(
    ("settings", "package"), [(GuestSettings, "agent_runtime"), (HostSettings, "agent_host")], ids=["guest", "host"]
)
def test_each_setting_is_read(settings: type[BaseModel], package: str) -> None:
    assert unread(settings, package) == set()


def test_each_setting_of_compaction_is_read() -> None:
    policy = unread(CompactionPolicy, "agent_runtime", "policy")
    chosen = unread(CompactionPolicy, "agent_runtime", "compaction")  # before it is handed on as a policy
    assert policy & chosen == set()
    assert unread(SmartRecovery, "agent_runtime", "recovery") == set()


@pytest.mark.parametrize(
    ("settings", "package"), [(GuestSettings, "agent_runtime"), (HostSettings, "agent_host")], ids=["guest", "host"]
)
def test_a_setting_that_nothing_reads_is_found(settings: type[BaseModel], package: str) -> None:
    more = create_model("More", __base__=settings, left_over=(int, Field(default=0)))
    assert unread(more, package) == {"left_over"}
