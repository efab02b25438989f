"""Type hints as JSON Schema, and JSON values as what the hint says. Runs in the worker: the standard library only."""

from __future__ import annotations

import enum
import inspect
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .union_types import first_that_fits

Reader = Callable[[Any], Any]


class NoSchema(TypeError):
    """There is no JSON Schema for a hint. The text names it and the reason."""


class Form(NamedTuple):
    """What JSON a hint stands for."""

    schema: dict[str, Any]
    read: Reader | None = None
    """Makes of a JSON value that fits the schema what the hint says; None when it is that already."""


def build_form(hint: Any, within: tuple[Any, ...] = ()) -> Form:
    """The form of a hint that holds no unresolved names; `within` are the hints around it. Raises NoSchema."""
    if any(one is hint for one in within):
        raise NoSchema(f"{hint_text(hint)} contains itself")
    if "pydantic" in sys.modules and (made := _of_pydantic(hint)) is not None:
        return made
    plain, notes = unwrap_hint(hint)
    for make in (_simple, _choice, _union, _array, _mapping, _text, _record):
        if (made := make(plain, (*within, hint))) is not None:
            return Form({**made.schema, **notes}, made.read)
    raise NoSchema(f"there is no JSON Schema for {hint_text(hint)}")


def _of_pydantic(hint: Any) -> Form | None:
    from .pydantic_hints import pydantic_form

    return pydantic_form(hint)


def hint_text(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def unwrap_hint(hint: Any) -> tuple[Any, dict[str, Any]]:
    """The hint without what only surrounds it, and the description that `Annotated` adds."""
    notes: dict[str, Any] = {}
    while True:
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            for text in (note for note in hint.__metadata__ if isinstance(note, str)):
                notes.setdefault("description", text)
            hint = hint.__origin__
        elif origin in (typing.Required, typing.NotRequired):
            (hint,) = typing.get_args(hint)
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint, notes


def _to_integer(value: Any) -> Any:
    """JSON Schema takes 1.0 for an integer."""
    return int(value) if isinstance(value, float) else value


_SIMPLE: Mapping[Any, Form] = {
    str: Form({"type": "string"}),
    int: Form({"type": "integer"}, _to_integer),
    float: Form({"type": "number"}),
    bool: Form({"type": "boolean"}),
    type(None): Form({"type": "null"}),
    object: Form({}),
    inspect.Parameter.empty: Form({}),
}


def _simple(hint: Any, _: tuple[Any, ...]) -> Form | None:
    if hint is Any:
        return Form({})
    if hint is None:
        hint = type(None)
    return _SIMPLE.get(hint) if isinstance(hint, type) else None


# ---------------------------------------------------------------- one of several


def _choice(hint: Any, _: tuple[Any, ...]) -> Form | None:
    if typing.get_origin(hint) is typing.Literal:
        values = list(typing.get_args(hint))
        if any(type(value) not in (str, int, bool, type(None)) for value in values):
            raise NoSchema(f"{hint_text(hint)} has a value that is not JSON")
        return Form(_enum_schema(values), _to_integer if any(type(value) is int for value in values) else None)
    if not (isinstance(hint, type) and issubclass(hint, enum.Enum)):
        return None
    members = enum_words(hint)
    if not members:
        raise NoSchema(f"{hint_text(hint)} has no members")
    return Form(_enum_schema(list(members)), members.__getitem__)


def enum_words(kind: type[enum.Enum]) -> dict[str, enum.Enum]:
    """What a model says for each member: its value where all values are texts, else its name."""
    by_value = all(isinstance(member.value, str) for member in kind)
    return {member.value if by_value else member.name: member for member in kind}


def _enum_schema(values: list[Any]) -> dict[str, Any]:
    names: dict[type, str] = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
    kinds = {names[type(value)] for value in values}
    return {**({"type": kinds.pop()} if len(kinds) == 1 else {}), "enum": values}


def _union(hint: Any, within: tuple[Any, ...]) -> Form | None:
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return None
    forms = [build_form(one, within) for one in typing.get_args(hint)]
    readers = [(one.schema, one.read) for one in forms]
    return Form(_any_of(forms), first_that_fits(readers) if any(one.read for one in forms) else None)


def _any_of(forms: list[Form]) -> dict[str, Any]:
    schemas: list[dict[str, Any]] = []
    for one in forms:
        if one.schema not in schemas:
            schemas.append(one.schema)
    if {} in schemas:
        return {}
    if len(schemas) == 1:
        return schemas[0]
    told = [one for one in schemas if one != {"type": "null"}]
    about = told[0].get("description") if len(told) == 1 else None  # of X in X | None, it is that of the whole
    if about is None:
        return {"anyOf": schemas}
    bare = [{name: value for name, value in one.items() if name != "description"} for one in schemas]
    return {"anyOf": bare, "description": about}


# ---------------------------------------------------------------- several of one

_ARRAYS: dict[Any, Any] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    tuple: tuple,
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
}
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)


def _array(hint: Any, within: tuple[Any, ...]) -> Form | None:
    kind = _ARRAYS.get(typing.get_origin(hint) or hint) if _is_class(hint) else None
    if kind is None:
        return None
    args = typing.get_args(hint)
    if kind is tuple and args and args[-1] is not ...:
        return _fixed_tuple([build_form(one, within) for one in args])
    item = build_form(args[0], within) if args else Form({})
    schema: dict[str, Any] = {"type": "array", **({"items": item.schema} if item.schema else {})}
    if kind in (set, frozenset):
        schema["uniqueItems"] = True
    if kind is list and item.read is None:
        return Form(schema)
    return Form(schema, _array_reader(kind, item.read))


def _array_reader(kind: Callable[[Any], Any], read: Reader | None) -> Reader:
    return lambda value: kind(map(read, value) if read else value)


def _fixed_tuple(forms: list[Form]) -> Form:
    """A tuple of a certain length. Which item must be of which type is known only when it is read."""
    readers = [first_that_fits([(one.schema, one.read)]) for one in forms]
    items = _any_of(forms)
    schema = {"type": "array", **({"items": items} if items else {}), "minItems": len(forms), "maxItems": len(forms)}

    def read(value: Any) -> Any:
        return tuple(reader(item) for reader, item in zip(readers, value, strict=True))

    return Form(schema, read)


def _mapping(hint: Any, within: tuple[Any, ...]) -> Form | None:
    if not _is_class(hint) or (typing.get_origin(hint) or hint) not in _MAPPINGS:
        return None
    key, value = typing.get_args(hint) or (str, Any)
    if unwrap_hint(key)[0] not in (str, Any):
        raise NoSchema(f"the keys of {hint_text(hint)} must be str")
    held = build_form(value, within)
    schema: dict[str, Any] = {"type": "object", **({"additionalProperties": held.schema} if held.schema else {})}
    return Form(schema, _mapping_reader(held.read) if held.read else None)


def _mapping_reader(read: Reader) -> Reader:
    return lambda value: {name: read(one) for name, one in value.items()}


def _is_class(hint: Any) -> bool:
    return isinstance(typing.get_origin(hint) or hint, type)


# ---------------------------------------------------------------- texts that mean something

_TEXTS = {
    "datetime.date": ("date", "fromisoformat", "2026-01-31"),
    "datetime.time": ("time", "fromisoformat", "09:30:00"),
    "datetime.datetime": ("date-time", "fromisoformat", "2026-01-31T09:30:00+00:00"),
    **dict.fromkeys(("pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath", "pathlib.PurePosixPath"), ("", "", "")),
}
"""Format, constructor and example by the name of the class: modules that no plugin asks for are not loaded here."""


def to_text(value: Any) -> str:
    """A date, a path or the like as a model writes it. Raises TypeError when it is none of these."""
    if _class_name(value.__class__) not in _TEXTS:
        raise TypeError(f"{value!r} is no JSON")
    return str(value)


def _text(hint: Any, _: tuple[Any, ...]) -> Form | None:
    if not isinstance(hint, type) or _class_name(hint) not in _TEXTS:
        return None
    named, constructor, example = _TEXTS[_class_name(hint)]
    if not named:
        return Form({"type": "string"}, hint)
    make = getattr(hint, constructor)

    def read(value: Any) -> Any:
        try:
            return make(value)
        except ValueError:
            raise ValueError(f"must be a {named} such as {example}, not {value!r:.80}") from None

    return Form({"type": "string", "format": named}, read)


def _class_name(kind: Any) -> str:
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def _record(hint: Any, within: tuple[Any, ...]) -> Form | None:
    from .record_types import record_form  # only plugins that have some pay for it

    return record_form(hint, within)
