"""Arguments against a JSON Schema, with faults that name the field and the fix."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

CLIP = 160
"""Characters of a value or a message that a fault repeats."""
MOST = 5
"""Faults told at once."""


async def ready() -> None:
    """Loads what checks schemas, off the event loop: it takes longer than the server may be deaf."""
    if "jsonschema" not in sys.modules:
        await asyncio.to_thread(importlib.import_module, "jsonschema")


def faults(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with the arguments, each as "field: what to do"; empty when nothing is."""
    validator: Any = _validator(json.dumps(schema, sort_keys=True))
    found = sorted(validator.iter_errors(dict(arguments)), key=lambda error: list(map(str, error.absolute_path)))
    return [line for error in found[:MOST] for line in _explain(error)]


def schema_fault(schema: Mapping[str, Any]) -> str | None:
    """Why this cannot be the schema of a tool's arguments; none when it can."""
    from jsonschema import Draft202012Validator, SchemaError

    if schema.get("type") != "object":
        return "the schema of a tool's arguments must be of type object"
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"{_field(error.absolute_path)}: {_clip(error.message)}"
    except RecursionError:
        return "the schema is nested too deep"
    return None


@lru_cache(maxsize=256)
def _validator(schema: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator
    from referencing import Registry

    # An empty registry: a reference to another document is a fault, never a request over the network.
    return Draft202012Validator(json.loads(schema), registry=Registry())


def _explain(error: Any) -> Iterator[str]:
    at = _field(error.absolute_path)
    allowed = error.validator_value
    match error.validator:
        case "required":
            missing = [name for name in allowed if name not in error.instance]
            yield from (f"{_field([*error.absolute_path, name])}: is required" for name in missing)
        case "additionalProperties" if allowed is False:
            known = error.schema.get("properties", {})
            strangers = [_field([*error.absolute_path, _clip(name)]) for name in error.instance if name not in known]
            yield from (f"{name}: no such field; there are: {', '.join(known) or 'none'}" for name in strangers)
        case "type":
            wanted = allowed if isinstance(allowed, str) else " or ".join(allowed)
            yield f"{at}: must be of type {wanted}, not {_clip(json.dumps(error.instance))}"
        case "enum":
            yield f"{at}: must be one of {_clip(json.dumps(allowed))}, not {_clip(json.dumps(error.instance))}"
        case "minimum" | "maximum" | "minLength" | "maxLength" | "minItems" | "maxItems":
            yield f"{at}: {error.validator} is {allowed}"
        case _:
            yield f"{at}: {_clip(error.message)}"


def _field(path: Any) -> str:
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return name.removeprefix(".") or "arguments"


def _clip(text: str) -> str:
    return text if len(text) <= CLIP else f"{text[:CLIP]}..."
