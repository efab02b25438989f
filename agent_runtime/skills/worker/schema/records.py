"""Hints with named members: dataclasses, named tuples, TypedDicts; and the arguments of a function."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, cast

from . import docstring
from .arguments import Reader, object_schema, read_members
from .form import Build, Form, NoSchema, unwrap_hint
from .values import enum_words, value_text

EMPTY: Any = inspect.Parameter.empty
MAX_DEFAULT_LENGTH = 500
"""Characters of JSON; the schema leaves out a longer default."""


class Member(NamedTuple):
    """One argument, or one field."""

    name: str
    hint: Any
    default: Any = EMPTY
    about: str = ""
    optional: bool = False
    """Whether it may be missing although it has no default."""


class Members(NamedTuple):
    """The parts of an object's schema, and the readers of those values that need one."""

    properties: dict[str, Any]
    required: list[str]
    readers: dict[str, Reader]


def build_members(members: Iterable[Member], build: Build) -> Members:
    """Return the schema's parts. Raises NoSchema that names the member."""
    made = Members({}, [], {})
    for one in members:
        try:
            # Python lets `x: str = None` pass, and a model that reads of that default may write it.
            schema, read = build(typing.Optional[one.hint] if one.default is None else one.hint)  # noqa: UP045
        except TypeError as fault:
            raise NoSchema(f"{one.name}: {fault}") from None
        about = {"description": one.about} if one.about and not unwrap_hint(one.hint)[1] else {}
        made.properties[one.name] = {**schema, **about, **_default_keyword(one.default)}
        if one.default is EMPTY and not one.optional:
            made.required.append(one.name)
        if read:
            made.readers[one.name] = read
    return made


def record_form(hint: Any, build: Build) -> Form | None:
    """Return the form of a dataclass, a named tuple or a TypedDict; None for other hints. Raises NoSchema."""
    is_dict = hasattr(hint, "__required_keys__")
    if not is_dict and not _has_fields(hint):
        return None
    doc = docstring.parse(_own_doc(hint))
    made = build_members(_typed_dict_members(hint, doc) if is_dict else _class_members(hint, doc), build)
    about = {"description": doc.about} if doc.about else {}

    def read(value: Any) -> Any:
        members = read_members(made.readers, value)
        return members if is_dict else hint(**members)

    return Form({**object_schema(made.properties, made.required), **about}, read)


def _has_fields(hint: Any) -> bool:
    return isinstance(hint, type) and (hasattr(hint, "__dataclass_fields__") or hasattr(hint, "_fields"))


def _typed_dict_members(kind: Any, doc: docstring.Doc) -> Iterable[Member]:
    """Where hints are texts, only the resolved hint says whether its key is required."""
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
    """Return the docstring that the author wrote; `dataclass` and `NamedTuple` write one where there is none."""
    doc = kind.__dict__.get("__doc__")
    return None if isinstance(doc, str) and doc.startswith(f"{kind.__name__}(") else doc


# ---------------------------------------------------------------- defaults


def _default_keyword(default: Any) -> dict[str, Any]:
    """Return the schema's `default`; nothing for a default that is not JSON, or is long."""
    try:
        plain = _to_json(default)
        size = len(json.dumps(plain, allow_nan=False))
    except (TypeError, KeyError, ValueError, RecursionError):
        return {}
    return {"default": plain} if size <= MAX_DEFAULT_LENGTH else {}


def _to_json(value: Any) -> Any:
    """Return what a model would write for a value. Raises TypeError or KeyError when that is not known."""
    match value:
        case Enum():
            return {id(member): word for word, member in enum_words(type(value)).items()}[id(value)]
        case None | str() | int() | float():
            return value
        case list() | tuple():
            return [_to_json(one) for one in cast("Sequence[Any]", value)]
        case dict() if all(isinstance(name, str) for name in cast("dict[Any, Any]", value)):
            return {name: _to_json(one) for name, one in cast("Mapping[str, Any]", value).items()}
        case _:
            return value_text(value)
