from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agent_runtime.skills
from agent_runtime.skills import skill
from agent_runtime.skills.worker.plugin import Skill, collect_skills

TEXT = {"type": "string"}


def declare(function: Any, parameters: Any = None, **more: Any) -> Skill:
    with collect_skills() as found:
        assert skill(name="s", description="d", parameters=parameters, **more)(function) is function
        return found[0]


def test_a_function_with_declared_parameters() -> None:
    async def your_tool(param1: str, *, mesh_client: Any = None) -> dict[str, str]:
        return {"result": "value"}

    declared = declare(your_tool, {"param1": {"type": "string", "description": "What this param is for"}})
    assert declared.describe() == {
        "name": "s",
        "description": "d",
        "parameters": {
            "type": "object",
            "properties": {"param1": {"type": "string", "description": "What this param is for"}},
            "required": ["param1"],
            "additionalProperties": False,
        },
        "timeout": None,
        "read_only": False,
        "idempotent": False,
    }


def test_an_argument_with_a_default_is_optional() -> None:
    def function(a: str, b: str = "x", c: str = "") -> None: ...

    declared = declare(function, {"a": TEXT, "b": TEXT}, timeout=5, read_only=True, idempotent=True)
    assert declared.parameters["required"] == ["a"]
    assert (declared.timeout, declared.read_only, declared.idempotent) == (5, True, True)

    def other(a: str, b: str) -> None: ...

    assert declare(other, {"a": TEXT, "b": {**TEXT, "default": "y"}}).parameters["required"] == ["a"]


def test_a_complete_schema_is_taken_as_it_is() -> None:
    def function(type: str = "", properties: str = "") -> None: ...

    schema = {"type": "object", "properties": {"type": TEXT}, "required": ["type"]}
    assert declare(function, schema).parameters == {**schema, "additionalProperties": False}
    plain = {"type": TEXT, "properties": TEXT}
    assert declare(function, plain).parameters["properties"] == plain, "two arguments that have such names"


def test_no_arguments() -> None:
    def function() -> None: ...

    assert declare(function).parameters["properties"] == {}


def test_a_function_that_takes_anything() -> None:
    def function(**anything: str) -> None: ...

    assert declare(function, {"a": TEXT, "b": TEXT}).parameters["required"] == ["a", "b"]


def positional(a: str, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameters", "told"),
    [
        (lambda a: a, {"type": "object", "properties": {}}, "the argument a of <lambda> is not described"),
        (lambda a: a, {"a": TEXT, "b": TEXT}, "<lambda> has no argument b"),
        (lambda a: a, {"a": "string"}, "a must be described by a dict"),
        (lambda mesh_client: 0, {"mesh_client": TEXT}, "mesh_client is filled in by the runtime"),
        (positional, {"a": TEXT}, "positional must take a by keyword"),
    ],
)
def test_parameters_that_do_not_fit_the_function_are_told(function: Any, parameters: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        declare(function, parameters)


def loaded_by(module: str) -> set[str]:
    """What an import loads in a fresh interpreter, out of this very checkout."""
    root = str(Path(agent_runtime.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {root!r}); before = set(sys.modules); import {module}; "
    code += "print(*(set(sys.modules) - before))"
    argv = [sys.executable, "-I", "-c", code]
    return set(subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.split())


def test_importing_the_decorator_is_light() -> None:
    """A plugin imports it in a process of its own, of which there may be many."""
    loaded = loaded_by("agent_runtime.skills")
    ours = {name for name in loaded if name.startswith("agent_runtime.")}
    worker = {f"agent_runtime.skills.worker{part}" for part in ("", ".plugin")}
    schema = {f"agent_runtime.skills.worker.schema{part}" for part in ("", ".arguments", ".signature")}
    assert ours == {"agent_runtime.errors", "agent_runtime.skills", *worker, *schema}, "no derivation is loaded yet"
    heavy = {"pydantic", "fastapi", "httpx", "openai", "structlog", "jsonschema", "starlette", "asyncio", "sqlite3"}
    assert not loaded & heavy


def test_the_worker_is_light_too() -> None:
    loaded = loaded_by("agent_runtime.skills.worker.main, agent_runtime.skills.worker.schema.hints")
    assert not loaded & {"pydantic", "fastapi", "httpx", "structlog", "jsonschema", "agent_runtime.ports"}


def test_the_server_s_side_loads_when_it_is_asked_for() -> None:
    assert agent_runtime.skills.SkillManager.__name__ == "SkillManager"
    with pytest.raises(AttributeError):
        _ = agent_runtime.skills.nothing  # type: ignore[attr-defined]
