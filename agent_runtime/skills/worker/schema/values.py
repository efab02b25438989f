"""Hints whose JSON is one value: numbers and texts, choices, dates, paths."""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Mapping
from datetime import date, datetime, time
from pathlib import PurePath
from typing import Any

from .arguments import Reader
from .form import Form, NoSchema, hint_text


def _to_integer(value: Any) -> Any:
    """JSON Schema takes 1.0 for an integer."""
    return int(value) if isinstance(value, float) else value


_ANYTHING = Form({})
_SIMPLE: Mapping[Any, Form] = {
    str: Form({"type": "string"}),
    int: Form({"type": "integer"}, _to_integer),
    float: Form({"type": "number"}),
    bool: Form({"type": "boolean"}),
    type(None): Form({"type": "null"}),
    **dict.fromkeys((Any, object, inspect.Parameter.empty), _ANYTHING),
}
_DATES: Mapping[type, tuple[str, str]] = {
    date: ("date", "2026-01-31"),
    time: ("time", "09:30:00"),
    datetime: ("date-time", "2026-01-31T09:30:00+00:00"),
}
"""The format and an example of each type."""


def value_form(hint: Any) -> Form | None:
    """Return the form of a hint that stands for one value; None for other hints. Raises NoSchema."""
    if typing.get_origin(hint) is typing.Literal:
        return _literal(hint)
    if hint is None:
        return _SIMPLE[type(None)]
    if not isinstance(hint, type):
        return None
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if hint in _DATES:
        return Form({"type": "string", "format": _DATES[hint][0]}, _date_reader(hint, *_DATES[hint]))
    if issubclass(hint, PurePath):
        return Form({"type": "string"}, hint)
    return _enum(hint) if issubclass(hint, enum.Enum) else None


def enum_words(kind: type[enum.Enum]) -> dict[str, enum.Enum]:
    """Return the members by what a model writes for them: their values where all are texts, else their names."""
    by_value = all(isinstance(member.value, str) for member in kind)
    return {member.value if by_value else member.name: member for member in kind}


def value_text(value: Any) -> str:
    """Return a date or a path as a model writes it. Raises TypeError for other values."""
    if not isinstance(value, date | time | PurePath):
        raise TypeError(f"{value!r} is no JSON")
    return str(value)


def _literal(hint: Any) -> Form:
    values = list(typing.get_args(hint))
    if any(type(value) not in (str, int, bool, type(None)) for value in values):
        raise NoSchema(f"{hint_text(hint)} has a value that is not JSON")
    return Form(_enum_schema(values), _to_integer if any(type(value) is int for value in values) else None)


def _enum(hint: type[enum.Enum]) -> Form:
    members = enum_words(hint)
    if not members:
        raise NoSchema(f"{hint_text(hint)} has no members")
    return Form(_enum_schema(list(members)), members.__getitem__)


def _enum_schema(values: list[Any]) -> dict[str, Any]:
    kinds = {_SIMPLE[type(value)].schema["type"] for value in values}
    return {**({"type": kinds.pop()} if len(kinds) == 1 else {}), "enum": values}


def _date_reader(kind: Any, name: str, example: str) -> Reader:
    def read(value: Any) -> Any:
        try:
            return kind.fromisoformat(value)
        except ValueError:
            raise ValueError(f"must be a {name} such as {example}, not {value!r:.80}") from None

    return read
