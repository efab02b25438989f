"""What is said of a field that a request may not have: which one was probably meant, or to leave it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import get_args

from pydantic import BaseModel

_LONGEST_NAME = 60
"""Of a name that is compared, which takes a time that grows with the square of its length."""


def unknown_field(name: str, known: Iterable[str]) -> str:
    """Return the fault of a field or parameter with this name, where those are known."""
    close = get_close_matches(name, list(known), n=1) if len(name) <= _LONGEST_NAME else []
    return f'unknown field; did you mean "{close[0]}"?' if close else "unknown field; remove it"


def fields_at(shape: object, path: Sequence[int | str]) -> set[str]:
    """Return the fields of the object at this path of a message; none if the shape does not say which."""
    models = list(_models(shape))
    for part in path:
        if isinstance(part, str):
            models = [inner for model in models for inner in _models(_annotations(model).get(part))]
    return {name for model in models for name in _annotations(model)}


def _annotations(model: type[BaseModel]) -> dict[str, object]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models(shape: object) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation, such as those of a union or of the items of a list."""
    if isinstance(shape, type) and issubclass(shape, BaseModel):
        yield shape
    for inner in get_args(shape):
        yield from _models(inner)
