"""Type hints as JSON Schema, and JSON values as what the hint says."""

from __future__ import annotations

import sys
import typing
from collections.abc import Mapping
from typing import Any

from .containers import container_form
from .form import Form, NoSchema, hint_text, unwrap_hint
from .records import record_form
from .values import value_form


def build_form(hint: Any, within: tuple[Any, ...] = ()) -> Form:
    """Return the form of a hint that holds no unresolved names; `within` are the hints around it. Raises NoSchema."""
    if any(one is hint for one in within):
        raise NoSchema(f"{hint_text(hint)} contains itself")
    if "pydantic" in sys.modules:  # only a plugin that has imported pydantic can have hints of it
        from .pydantic_hints import pydantic_form

        if (made := pydantic_form(hint)) is not None:
            return made

    def build(inner: Any) -> Form:
        return build_form(inner, (*within, hint))

    plain, notes = unwrap_hint(hint)
    made = value_form(plain) or container_form(plain, build) or record_form(plain, build)
    if made is None:
        raise NoSchema(f"there is no JSON Schema for {hint_text(hint)}")
    return Form({**made.schema, **notes}, made.read)


def resolve_hint(hint: Any, names: Mapping[str, Any]) -> Any:
    """Return a hint without names in it. Raises NoSchema for a name that is not defined."""

    def bearer() -> None: ...

    bearer.__annotations__ = {"one": hint}
    try:
        return typing.get_type_hints(bearer, dict(names), include_extras=True)["one"]
    except Exception as error:  # noqa: BLE001 - a hint may be any expression
        unquoted = str(hint).strip("'\"")
        raise NoSchema(f"its hint {unquoted} cannot be resolved here: {error}; import or define it above") from None
