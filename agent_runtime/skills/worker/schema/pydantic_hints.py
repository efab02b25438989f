"""Hints of pydantic: models, and `Annotated` with `Field`. pydantic makes the schema and reads the value.

Loaded only when the plugin has imported pydantic itself.
"""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Mapping
from typing import Any, cast

from ...validation.schema_keywords import KEYWORDS
from .arguments import Reader
from .form import Form, NoSchema, hint_text

MAX_FAULTS = 5


def pydantic_form(hint: Any) -> Form | None:
    """Return the form of a hint that only pydantic understands; None for other hints. Raises NoSchema."""
    pydantic: Any = sys.modules["pydantic"]
    if not _is_model(hint, pydantic) and not _has_field(hint, pydantic):
        return None
    try:
        adapter: Any = pydantic.TypeAdapter(hint)
        schema: dict[str, Any] = adapter.json_schema()
    except Exception as error:  # noqa: BLE001  a model may hold types of any library
        raise NoSchema(f"pydantic has no JSON Schema for {hint_text(hint)}: {error}") from None
    return Form(_inline_references(schema, schema.get("$defs", {}), ()), _make_reader(adapter))


def _is_model(hint: Any, pydantic: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def _has_field(hint: Any, pydantic: Any) -> bool:
    if typing.get_origin(hint) is not typing.Annotated:
        return False
    return any(isinstance(note, pydantic.fields.FieldInfo) for note in hint.__metadata__)


def _make_reader(adapter: Any) -> Reader:
    def read(value: Any) -> Any:
        try:
            return adapter.validate_json(json.dumps(value))
        except ValueError as error:
            raise ValueError(_faults_text(error)) from None

    return read


def _faults_text(error: Any) -> str:
    """Return the faults of a ValidationError in one line: `items.0.price: Input should be a valid number`."""
    faults = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors(include_url=False)[:MAX_FAULTS]]
    return "; ".join(f"{where}: {message}" if where else message for where, message in faults)


def _inline_references(schema: Any, definitions: Mapping[str, Any], within: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema without references and without keywords that the server does not check; pydantic does."""
    reference = schema.get("$ref")
    if reference is not None:
        name = reference.removeprefix("#/$defs/")
        if name in within:
            raise NoSchema(f"{name} contains itself")
        schema = {**definitions[name], **{key: value for key, value in schema.items() if key != "$ref"}}
        within = (*within, name)
    plain: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "properties":
            plain[keyword] = {name: _inline_references(one, definitions, within) for name, one in value.items()}
        elif keyword in ("anyOf", "oneOf", "allOf"):
            plain[keyword] = [_inline_references(one, definitions, within) for one in value]
        elif keyword in ("items", "additionalProperties", "not") and isinstance(value, dict):
            plain[keyword] = _inline_references(cast("dict[str, Any]", value), definitions, within)
        elif keyword in KEYWORDS:
            plain[keyword] = value
    return plain
