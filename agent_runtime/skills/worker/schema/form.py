"""The JSON form of a type hint, and the parts of a hint that only surround a type."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from .arguments import Reader


class NoSchema(TypeError):
    """A hint has no JSON Schema. The text names the hint and the reason."""


class Form(NamedTuple):
    """The JSON that a hint stands for."""

    schema: dict[str, Any]
    read: Reader | None = None
    """None: the JSON value is what the hint says."""


Build = Callable[[Any], Form]
"""Builds the form of a hint inside another hint. Raises NoSchema."""


def hint_text(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def unwrap_hint(hint: Any) -> tuple[Any, dict[str, Any]]:
    """Return the type inside `Annotated`, `Required`, `NewType` and aliases, and the description that `Annotated` adds,
    as a keyword of the schema."""
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
        elif type(hint).__name__ == "TypeAliasType":  # typing has it from Python 3.12 on
            hint = hint.__value__
        else:
            return hint, notes
