"""The `@skill` decorator, which plugins import in their workers: the standard library only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from .schema.arguments import Arguments
from .schema.signature import build_arguments, function_name

if TYPE_CHECKING:
    from .schema.docstring import Doc

Function = TypeVar("Function", bound=Callable[..., Any])


class Skill(NamedTuple):
    """A function that is declared as a skill."""

    name: str
    description: str
    arguments: Arguments
    timeout: float | None
    read_only: bool
    idempotent: bool
    function: Callable[..., Any]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments object."""
        return self.arguments.schema

    def describe(self) -> dict[str, Any]:
        """Return the fields that the worker sends to the server: all but the function."""
        names = ("name", "description", "parameters", "timeout", "read_only", "idempotent")
        return {name: getattr(self, name) for name in names}


_collected: list[Skill] = []


@overload
def skill(function: Function, /) -> Function: ...


@overload
def skill(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    read_only: bool = False,
    idempotent: bool = False,
) -> Callable[[Function], Function]: ...


def skill(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    read_only: bool = False,
    idempotent: bool = False,
) -> Any:
    """Make a function, sync or async, a tool of the agent. Return the function itself; `@skill` without arguments works
    too.

    `name` is the function's own unless given, `description` the docstring up to its first section. `parameters` maps
    each argument to its JSON Schema; without it the schemas are derived from the hints, the defaults and the docstring,
    and values are converted as the hints say. An argument without a default is required. `timeout` is in seconds;
    None: the runtime's default. A function with the keywords `mesh_client` and `workspace` is passed them. It returns
    any JSON value. Raises TypeError when something is missing or does not fit.
    """

    def decorate(function: Function) -> Function:
        if not callable(function) or inspect.isclass(function):
            raise TypeError(f"@skill goes on a function, and its fields have names: @skill(name=...), not {function!r}")
        doc = _parse_doc(function) if description is None or parameters is None else None
        about = description or (doc.about if doc else "")
        if not about:
            raise TypeError(f"{function_name(function)} has no description: give it a docstring, or description=...")
        arguments = build_arguments(function, parameters, doc.arguments if doc else {})
        named = name or function_name(function)
        _collected.append(Skill(named, about, arguments, timeout, read_only, idempotent, function))
        return function

    return decorate if function is None else decorate(function)


def _parse_doc(function: Callable[..., Any]) -> Doc:
    from .schema import docstring  # a skill that describes all by itself needs none of it

    return docstring.parse(function.__doc__)


@contextmanager
def collect_skills() -> Generator[list[Skill]]:
    """Yield the list of the skills that are declared within the block."""
    _collected.clear()
    yield _collected
