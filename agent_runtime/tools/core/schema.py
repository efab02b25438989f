"""Check arguments against a JSON Schema, with faults that name the field and the remedy."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from . import schema_bounds as bounds

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

MAX_QUOTED = 160
"""Maximum characters of a value or a message repeated in a fault."""
MAX_FAULTS = 5
"""Maximum faults reported at once."""
INLINE_WORK_LIMIT = 1_000_000
"""Characters of schema times characters of arguments that are checked at once; more work runs in a thread."""


_executor = ThreadPoolExecutor(1, "schema")
"""A single thread, because several would take turns with the GIL and starve the server."""


async def load_schema_validator() -> None:
    """Import the validator off the event loop, because the import would block the server for too long."""
    if "jsonschema" not in sys.modules:
        await asyncio.to_thread(importlib.import_module, "jsonschema")


async def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Return the same as `argument_faults` without blocking the event loop."""
    if len(json.dumps(schema)) * len(json.dumps(arguments)) <= INLINE_WORK_LIMIT:
        return argument_faults(schema, arguments)
    beside = partial(argument_faults, schema, arguments, yield_gil=True)
    return await asyncio.get_running_loop().run_in_executor(_executor, beside)


def argument_faults(schema: Mapping[str, Any], arguments: Mapping[str, Any], *, yield_gil: bool = False) -> list[str]:
    """Return the faults of the arguments, each as "field: remedy"; empty if there are none."""
    validator: Any = _validator(json.dumps(schema, sort_keys=True))
    bounds.start_clock(yield_gil=yield_gil)
    try:
        # Stop at the reported number: errors hold all their causes, and freeing thousands would stop every thread.
        found: list[Any] = sorted(islice(validator.iter_errors(dict(arguments)), MAX_FAULTS), key=_error_path)
    except bounds.WorkLimitExceeded:
        return [f"arguments: checking them took longer than {bounds.CHECK_SECONDS:g} s; give fewer"]
    return [line for error in found for line in _explain(error)]


def normalize_arguments(schema: Mapping[str, Any], value: Any) -> Any:
    """Convert whole numbers to integers where the schema demands it: 1.0 is valid there, and many models write it."""
    if isinstance(value, float) and schema.get("type") == "integer" and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        known: Mapping[str, Any] = schema.get("properties") or {}
        members = cast("Mapping[str, Any]", value)
        return {name: normalize_arguments(known.get(name, {}), one) for name, one in members.items()}
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [normalize_arguments(schema["items"], one) for one in cast("list[Any]", value)]
    return cast("Any", value)


def schema_fault(schema: Mapping[str, Any]) -> str | None:
    """Return why this cannot be the schema of a tool's arguments; None if it can."""
    from jsonschema import Draft202012Validator, SchemaError

    if schema.get("type") != "object":
        return "the schema of a tool's arguments must be of type object"
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"{_field_name(error.absolute_path)}: {_clip(error.message)}"
    except RecursionError:
        return "the schema is nested too deep"
    return None


@lru_cache(maxsize=256)
def _validator(schema: str) -> Draft202012Validator:
    from referencing import Registry

    # An empty registry: a reference to another document is a fault, never a request over the network.
    return bounds.bounded_validator()(json.loads(schema), registry=Registry())


def _error_path(error: Any) -> list[str]:
    return [str(part) for part in error.absolute_path]


def _explain(error: Any) -> Iterator[str]:
    at = _field_name(error.absolute_path)
    allowed = error.validator_value
    match error.validator:
        case "required":
            missing = [name for name in allowed if name not in error.instance]
            yield from (f"{_field_name([*error.absolute_path, name])}: is required" for name in missing)
        case "additionalProperties" if allowed is False:
            known = error.schema.get("properties", {})
            strangers = [
                _field_name([*error.absolute_path, _clip(name)]) for name in error.instance if name not in known
            ]
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


def _field_name(path: Any) -> str:
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return name.removeprefix(".") or "arguments"


def _clip(text: str) -> str:
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."
