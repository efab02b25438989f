"""Hints that hold others: unions, arrays, mappings."""

from __future__ import annotations

import types
import typing
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from .arguments import Reader
from .form import Build, Form, NoSchema, hint_text, unwrap_hint

_ARRAYS: dict[Any, Any] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    tuple: tuple,
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
}
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: type(value) is int or (isinstance(value, float) and value.is_integer()),
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def container_form(hint: Any, build: Build) -> Form | None:
    """Return the form of a union, an array or a mapping; None for other hints. Raises NoSchema."""
    kind = typing.get_origin(hint) or hint
    args = typing.get_args(hint)
    if kind in (typing.Union, types.UnionType):
        return _union([build(one) for one in args])
    if not isinstance(kind, type):
        return None
    if kind is tuple and args and args[-1] is not ...:
        return _fixed_tuple([build(one) for one in args])
    if kind in _ARRAYS:
        return _array(_ARRAYS[kind], build(args[0]) if args else Form({}))
    return _mapping(hint, build) if kind in _MAPPINGS else None


# ---------------------------------------------------------------- one of several


def _union(forms: list[Form]) -> Form:
    return Form(_any_of(forms), _first_that_fits(forms) if any(one.read for one in forms) else None)


def _any_of(forms: list[Form]) -> dict[str, Any]:
    schemas: list[dict[str, Any]] = []
    for one in forms:
        if one.schema not in schemas:
            schemas.append(one.schema)
    if {} in schemas:
        return {}
    if len(schemas) == 1:
        return schemas[0]
    others = [one for one in schemas if one != {"type": "null"}]
    about = others[0].get("description") if len(others) == 1 else None  # in X | None, that of X describes the whole
    if about is None:
        return {"anyOf": schemas}
    undescribed = [{name: value for name, value in one.items() if name != "description"} for one in schemas]
    return {"anyOf": undescribed, "description": about}


def _first_that_fits(forms: Sequence[Form]) -> Reader:
    """Return a reader that reads a value by the first form which it fits and which can read it."""
    wanted = " or ".join(str(schema.get("type", "another value")) for schema, _ in forms)

    def read(value: Any) -> Any:
        fault = ValueError(f"must be of type {wanted}, not {value!r:.80}")
        for schema, reader in forms:
            if _fits(schema, value):
                try:
                    return reader(value) if reader else value
                except ValueError as error:
                    fault = error
        raise fault

    return read


def _fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value fits a schema, as far as derived schemas differ; a whole validator would take long to load."""
    if "anyOf" in schema:
        return any(_fits(one, value) for one in schema["anyOf"])
    if "enum" in schema:
        return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, str) and not _TYPES[kind](value):
        return False
    if kind == "array":
        return all(_fits(schema.get("items", {}), item) for item in value)
    return _has_members(schema, value) if kind == "object" else True


def _has_members(schema: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    known = cast("Mapping[str, Any]", schema.get("properties", {}))
    others = schema.get("additionalProperties", True)
    if not value.keys() >= set(schema.get("required", ())) or (others is False and value.keys() - known.keys()):
        return False
    members = {name: known.get(name, {} if isinstance(others, bool) else others) for name in value}
    return all(_fits(members[name], one) for name, one in value.items())


# ---------------------------------------------------------------- several of one


def _array(kind: Any, item: Form) -> Form:
    schema: dict[str, Any] = {"type": "array", **({"items": item.schema} if item.schema else {})}
    if kind in (set, frozenset):
        schema["uniqueItems"] = True
    if kind is list and item.read is None:
        return Form(schema)
    return Form(schema, _array_reader(kind, item.read))


def _array_reader(kind: Any, read: Reader | None) -> Reader:
    return lambda value: kind(map(read, value) if read else value)


def _fixed_tuple(forms: list[Form]) -> Form:
    """The schema bounds the number of items and says what one may be; only the reader knows the type of each."""
    readers = [_first_that_fits([one]) for one in forms]
    items = _any_of(forms)
    schema = {"type": "array", **({"items": items} if items else {}), "minItems": len(forms), "maxItems": len(forms)}

    def read(value: Any) -> Any:
        return tuple(reader(item) for reader, item in zip(readers, value, strict=True))

    return Form(schema, read)


def _mapping(hint: Any, build: Build) -> Form:
    key, value = typing.get_args(hint) or (str, Any)
    if unwrap_hint(key)[0] not in (str, Any):
        raise NoSchema(f"the keys of {hint_text(hint)} must be str")
    form = build(value)
    schema: dict[str, Any] = {"type": "object", **({"additionalProperties": form.schema} if form.schema else {})}
    return Form(schema, _mapping_reader(form.read) if form.read else None)


def _mapping_reader(read: Reader) -> Reader:
    return lambda value: {name: read(one) for name, one in value.items()}
