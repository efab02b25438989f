"""Which of several schemas a JSON value fits: as far as derived ones differ, which need no validator for that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: type(value) is int or (isinstance(value, float) and value.is_integer()),
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def first_that_fits(readers: Sequence[tuple[Mapping[str, Any], Callable[[Any], Any] | None]]) -> Callable[[Any], Any]:
    """Reads a value with the first reader whose schema it fits and that takes it. ValueError when none does."""

    def read(value: Any) -> Any:
        wanted = " or ".join(str(schema.get("type", "another value")) for schema, _ in readers)
        fault = ValueError(f"must be of type {wanted}, not {value!r:.80}")
        for schema, reader in readers:
            if fits(schema, value):
                try:
                    return reader(value) if reader else value
                except ValueError as error:
                    fault = error
        raise fault

    return read


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    if "anyOf" in schema:
        return any(fits(one, value) for one in schema["anyOf"])
    if "enum" in schema:
        return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, str) and not _TYPES[kind](value):
        return False
    if kind == "array":
        return all(fits(schema.get("items", {}), item) for item in value)
    return _has_members(schema, value) if kind == "object" else True


def _has_members(schema: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    known = cast("Mapping[str, Any]", schema.get("properties", {}))
    others = schema.get("additionalProperties", True)
    if not value.keys() >= set(schema.get("required", ())) or (others is False and value.keys() - known.keys()):
        return False
    held = {name: known.get(name, {} if isinstance(others, bool) else others) for name in value}
    return all(fits(held[name], one) for name, one in value.items())
