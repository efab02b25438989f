"""The `@skill` decorator. Imported by plugins, in a process that starts for one of them: the standard library only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

INJECTED = ("mesh_client", "workspace")
"""Keywords that the runtime fills in, for functions that take them."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Skill:
    """A function with all that the catalog needs to know about it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments object."""
    timeout: float | None
    read_only: bool
    idempotent: bool
    function: Callable[..., Any]

    def declared(self) -> dict[str, Any]:
        """All but the function, for the wire."""
        names = ("name", "description", "parameters", "timeout", "read_only", "idempotent")
        return {name: getattr(self, name) for name in names}

    def takes(self, keyword: str) -> bool:
        return keyword in inspect.signature(self.function).parameters


_collected: list[Skill] = []


def skill(
    *,
    name: str,
    description: str,
    parameters: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    read_only: bool = False,
    idempotent: bool = False,
) -> Callable[[Function], Function]:
    """Makes a function, sync or async, a tool of the agent. The function itself stays as it is.

    `parameters` maps each argument's name to its JSON Schema; an argument without a default is required. `timeout` is
    in seconds, in place of the runtime's default. `mesh_client` and `workspace` are given to a function that has such
    keywords. It returns any JSON value. Raises TypeError when parameters and signature do not fit each other.
    """

    def decorate(function: Function) -> Function:
        schema = arguments_schema(function, parameters or {})
        _collected.append(Skill(name, description, schema, timeout, read_only, idempotent, function))
        return function

    return decorate


@contextmanager
def collecting() -> Generator[list[Skill]]:
    """The skills that are declared while this is open."""
    _collected.clear()
    yield _collected


def arguments_schema(function: Callable[..., Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON Schema for the arguments; `parameters` may be one already. Raises TypeError naming what does not fit."""
    complete = parameters.get("type") == "object" and isinstance(parameters.get("properties"), Mapping)
    properties: Mapping[str, Any] = parameters["properties"] if complete else parameters
    optional = _accepted(function, properties)
    if complete:
        return {"additionalProperties": False, **parameters}
    required = [name for name in properties if name not in optional and "default" not in properties[name]]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _accepted(function: Callable[..., Any], properties: Mapping[str, Any]) -> set[str]:
    """The described arguments that the function has defaults for, once it is clear that it can be called at all."""
    called = getattr(function, "__name__", "the function")
    taken = inspect.signature(function).parameters
    anything = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    for name, described in properties.items():
        if not isinstance(described, Mapping):
            raise TypeError(f"parameters: {name} must be described by a dict such as {{'type': 'string'}}")
        if name in INJECTED:
            raise TypeError(f"parameters: {name} is filled in by the runtime; leave it out")
        if name not in taken and not anything:
            raise TypeError(f"parameters: {called} has no argument {name}")
    for name, one in taken.items():
        if one.kind is one.POSITIONAL_ONLY:
            raise TypeError(f"{called} must take {name} by keyword")
        needed = one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        if needed and name not in properties and name not in INJECTED:
            raise TypeError(f"parameters: the argument {name} of {called} is not described")
    return {name for name, one in taken.items() if one.default is not one.empty}
