"""From a function to its arguments: what its author describes, and what its signature says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .arguments import Arguments, object_schema

INJECTED = ("mesh_client", "workspace")
"""Keywords that the runtime passes to functions that take them."""

Function = Callable[..., Any]
Described = Mapping[str, Any]


def build_arguments(function: Function, described: Described | None, about: Mapping[str, str]) -> Arguments:
    """Return the arguments of a function. Raises TypeError that names what does not fit.

    `described` maps arguments to schemas, or is a schema of `type: object`; `about` is what the docstring says of each.
    Without `described` every argument is derived from its hint. With it, the model sees the described arguments, and
    the required ones that are not described, which are derived; an optional one is left to the function.
    """
    if described is None:
        wanted = list(_accepted_parameters(function, {}).values())
        if any(one.kind is one.VAR_KEYWORD for one in inspect.signature(function).parameters.values()):
            raise TypeError(f"{function_name(function)} takes any keyword: say in parameters which there are")
        return _derive_arguments(function, wanted, about)
    if not isinstance(described, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - a plugin may say anything
        raise TypeError(f"parameters: must be a dict from arguments to their schemas, not {described!r:.80}")
    if described.get("type") == "object" and isinstance(described.get("properties"), Mapping):
        return _from_full_schema(function, described)
    accepted = _accepted_parameters(function, described)
    derived = _derive_arguments(function, _undescribed_required(accepted, described), about)
    defaults = _defaults(described)
    optional = {name for name, one in accepted.items() if one.default is not one.empty} | defaults.keys()
    properties = {**described, **derived.schema["properties"]}
    required = [name for name in described if name not in optional] + derived.schema["required"]
    return Arguments(object_schema(properties, required), defaults, derived.readers)


def function_name(function: Function) -> str:
    return getattr(function, "__name__", "the function")


def _from_full_schema(function: Function, schema: Described) -> Arguments:
    properties: Described = schema["properties"]
    if missing := _undescribed_required(_accepted_parameters(function, properties), properties):
        raise TypeError(f"parameters: the argument {missing[0].name} of {function_name(function)} is not described")
    return Arguments({"additionalProperties": False, **schema}, _defaults(properties), {})


def _accepted_parameters(function: Function, described: Described) -> dict[str, inspect.Parameter]:
    """Return the parameters that a call may give. Raises TypeError unless the function takes what is described."""
    parameters = inspect.signature(function).parameters
    anything = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    for name, schema in described.items():
        if not isinstance(schema, Mapping):
            raise TypeError(f"parameters: {name} must be described by a dict such as {{'type': 'string'}}")
        if name in INJECTED:
            raise TypeError(f"parameters: {name} is filled in by the runtime; leave it out")
        if name not in parameters and not anything:
            raise TypeError(f"parameters: {function_name(function)} has no argument {name}")
    for name, one in parameters.items():
        if one.kind is one.POSITIONAL_ONLY:
            raise TypeError(f"{function_name(function)} must take {name} by keyword")
    collecting = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {name: one for name, one in parameters.items() if name not in INJECTED and one.kind not in collecting}


def _undescribed_required(accepted: Mapping[str, inspect.Parameter], described: Described) -> list[inspect.Parameter]:
    return [one for name, one in accepted.items() if one.default is one.empty and name not in described]


def _defaults(described: Described) -> dict[str, Any]:
    return {name: one["default"] for name, one in described.items() if "default" in one}


def _derive_arguments(function: Function, wanted: list[inspect.Parameter], about: Mapping[str, str]) -> Arguments:
    if not wanted:
        return Arguments(object_schema({}, []), {}, {})
    from .hints import NoSchema, build_form, resolve_hint  # a skill that describes all its arguments needs none of it
    from .records import Member, build_members

    names = getattr(inspect.unwrap(function), "__globals__", {})
    members: list[Member] = []
    for one in wanted:
        try:
            hint = resolve_hint(one.annotation, names)
        except NoSchema as fault:
            raise TypeError(f"{function_name(function)}: the argument {one.name}: {fault}") from None
        members.append(Member(one.name, hint, one.default, about.get(one.name, "")))
    try:
        made = build_members(members, build_form)
    except NoSchema as fault:
        raise TypeError(
            f"{function_name(function)}: the argument {fault}. Describe it in parameters, or take str, int, float, "
            "bool, list, dict, Literal, an Enum, a date, a Path or a dataclass"
        ) from None
    return Arguments(object_schema(made.properties, made.required), {}, made.readers)
