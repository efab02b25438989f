"""What a skill takes. Loaded by every plugin, so it imports no part of the derivation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Reader = Callable[[Any], Any]
"""Turns a JSON value that fits the schema into what the hint says. Raises ValueError."""


class Arguments(NamedTuple):
    """The arguments of a skill: their schema, and how a call passes them."""

    schema: Mapping[str, Any]
    """JSON Schema of the arguments object."""
    defaults: Mapping[str, Any]
    """Defaults that the schema states, by argument; the function's own defaults are not here."""
    readers: Mapping[str, Reader]
    """By argument. An argument without a reader is passed as the plain JSON value."""

    def convert(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keywords of a call. Raises ValueError that names the argument which cannot be read."""
        return read_members(self.readers, {**self.defaults, **given})


def read_members(readers: Mapping[str, Reader], value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members, each as its hint says. Raises ValueError that names the one which cannot be read."""
    read = dict(value)
    for name in readers.keys() & value.keys():
        try:
            read[name] = readers[name](value[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return read


def object_schema(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
