"""Things with named members: the arguments of a function, dataclasses, named tuples, TypedDicts."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, cast

from . import docstring
from .signature import object_schema
from .type_schema import Form, NoSchema, Reader, build_form, enum_words, to_text, unwrap_hint

__all__ = ["Member", "Members", "NoSchema", "build_members", "read_members", "record_form", "resolve_hint"]

EMPTY: Any = inspect.Parameter.empty
MAX_DEFAULT_LENGTH = 500
"""Characters of JSON; a longer default is not told."""


class Member(NamedTuple):
    """One argument, or one field."""

    name: str
    hint: Any
    default: Any = EMPTY
    about: str = ""
    optional: bool = False
    """Even without a default."""


class Members(NamedTuple):
    """The parts of an object's schema, and the readers of those values that need one."""

    properties: dict[str, Any]
    required: list[str]
    readers: dict[str, Reader]


def build_members(members: Iterable[Member], within: tuple[Any, ...] = ()) -> Members:
    """Raises NoSchema naming the member."""
    made = Members({}, [], {})
    for one in members:
        try:
            # Python lets `x: str = None` pass, and a model that reads of that default may write it.
            held = build_form(typing.Optional[one.hint] if one.default is None else one.hint, within)  # noqa: UP045
        except TypeError as fault:
            raise NoSchema(f"{one.name}: {fault}") from None
        about = {"description": one.about} if one.about and not unwrap_hint(one.hint)[1] else {}
        made.properties[one.name] = {**held.schema, **about, **_default_keyword(one.default)}
        if one.default is EMPTY and not one.optional:
            made.required.append(one.name)
        if held.read:
            made.readers[one.name] = held.read
    return made


def read_members(readers: Mapping[str, Reader], value: Mapping[str, Any]) -> dict[str, Any]:
    """The members as their hints say. Raises ValueError naming the one that cannot be read."""
    read = dict(value)
    for name in [name for name in value if name in readers]:
        try:
            read[name] = readers[name](value[name])
        except ValueError as fault:
            raise ValueError(f"{name}: {fault}") from fault
    return read


def resolve_hint(hint: Any, names: Mapping[str, Any]) -> Any:
    """A hint without names in it. Raises NoSchema for a name that is not there."""

    def bearer() -> None: ...

    bearer.__annotations__ = {"one": hint}
    try:
        return typing.get_type_hints(bearer, dict(names), include_extras=True)["one"]
    except Exception as error:  # noqa: BLE001 - a hint may be any expression
        bare = str(hint).strip("'\"")
        raise NoSchema(f"its hint {bare} cannot be resolved here: {error}; import or define it above") from None


def _default_keyword(default: Any) -> dict[str, Any]:
    """The default as the schema tells it; nothing when it is no JSON, or long."""
    try:
        plain = _to_json(default)
        size = len(json.dumps(plain, allow_nan=False))
    except (TypeError, KeyError, ValueError, RecursionError):
        return {}
    return {"default": plain} if size <= MAX_DEFAULT_LENGTH else {}


def _to_json(value: Any) -> Any:
    """What a model would write for it. Raises TypeError or KeyError when that is not known."""
    match value:
        case Enum():
            return {id(member): word for word, member in enum_words(type(value)).items()}[id(value)]
        case None | str() | int() | float():
            return value
        case list() | tuple():
            return [_to_json(one) for one in cast("Sequence[Any]", value)]
        case dict() if all(isinstance(name, str) for name in cast("dict[Any, Any]", value)):
            return {name: _to_json(one) for name, one in cast("dict[str, Any]", value).items()}
        case _:
            return to_text(value)


# ---------------------------------------------------------------- classes


def record_form(hint: Any, within: tuple[Any, ...]) -> Form | None:
    """The form of a dataclass, a named tuple or a TypedDict; none when the hint is none of them."""
    is_dict = hasattr(hint, "__required_keys__")
    if not is_dict and not _has_fields(hint):
        return None
    doc = docstring.parse(_own_doc(hint))
    made = build_members(_typed_dict_members(hint, doc) if is_dict else _class_members(hint, doc), within)
    about = {"description": doc.about} if doc.about else {}
    schema = {**object_schema(made.properties, made.required), **about}

    def read(value: Any) -> Any:
        members = read_members(made.readers, value)
        return members if is_dict else hint(**members)

    return Form(schema, read)


def _has_fields(hint: Any) -> bool:
    return isinstance(hint, type) and (hasattr(hint, "__dataclass_fields__") or hasattr(hint, "_fields"))


def _typed_dict_members(kind: Any, doc: docstring.Doc) -> Iterable[Member]:
    """Whether a key is required stands in the hint itself where hints are written as texts."""
    marks = {typing.Required: True, typing.NotRequired: False}
    for name, hint in _hints(kind).items():
        required = marks.get(typing.get_origin(hint), name in kind.__required_keys__)
        yield Member(name, hint, about=doc.arguments.get(name, ""), optional=not required)


def _class_members(kind: Any, doc: docstring.Doc) -> Iterable[Member]:
    hints = _hints(kind)
    for name, one in inspect.signature(kind).parameters.items():
        yield Member(name, hints.get(name, EMPTY), one.default, doc.arguments.get(name, ""))


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception as error:  # noqa: BLE001 - a hint may be any expression
        raise NoSchema(f"a hint of {kind.__qualname__} cannot be resolved here: {error}") from None


def _own_doc(kind: Any) -> str | None:
    """Not the one that `dataclass` and `NamedTuple` write where there is none."""
    doc = kind.__dict__.get("__doc__")
    return None if isinstance(doc, str) and doc.startswith(f"{kind.__name__}(") else doc
