"""Check arguments against a JSON Schema, with faults that name the field and the remedy."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from . import schema_bounds as bounds

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

MAX_QUOTED = 160
"""Maximum characters of a value or a message repeated in a fault."""
MAX_FAULTS = 5
"""Maximum faults reported at once."""
INLINE_WORK_LIMIT = 1_000_000
"""Characters of schema times characters of arguments that are checked at once; more work runs in a thread."""


T = TypeVar("T")
_executor = ThreadPoolExecutor(1, "schema")
"""A single thread, because several would take turns with the GIL and starve the server."""


async def load_schema_validator() -> None:
    """Import the validator off the event loop, because the import would block the server for too long."""
    if "jsonschema" not in sys.modules:
        await asyncio.to_thread(importlib.import_module, "jsonschema")


async def check_arguments(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], name: str = "arguments"
) -> list[str]:
    """Return the same as `argument_faults` without blocking the event loop."""
    if len(json.dumps(schema)) * len(json.dumps(arguments)) <= INLINE_WORK_LIMIT:
        return argument_faults(schema, arguments, name)
    return await check_in_thread(partial(argument_faults, schema, arguments, name, yield_gil=True))


async def check_in_thread(check: Callable[[], T]) -> T:
    """Run a check beside the event loop."""
    return await asyncio.get_running_loop().run_in_executor(_executor, check)


def argument_faults(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], name: str = "arguments", *, yield_gil: bool = False
) -> list[str]:
    """Return the faults of the arguments, each as "field: remedy"; empty if there are none. `name` is the field of
    faults that concern all of them."""
    validator: Any = _validator(json.dumps(schema, sort_keys=True))
    bounds.start_clock(yield_gil=yield_gil)
    try:
        # Stop at the reported number: errors hold all their causes, and freeing thousands would stop every thread.
        found: list[Any] = sorted(islice(validator.iter_errors(dict(arguments)), MAX_FAULTS), key=_error_path)
    except bounds.WorkLimitExceeded:
        return [f"{name}: the check took longer than {bounds.CHECK_SECONDS:g} s; give less"]
    except RecursionError:
        return [f"{name}: nested too deep"]
    return [line for error in found for line in _explain(error, name)]


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
    if schema.get("type") != "object":
        return "the schema of a tool's arguments must be of type object"
    fault = syntax_fault(schema)
    return ": ".join(filter(None, fault)) if fault is not None else None


def syntax_fault(schema: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the path and the text of what is not JSON Schema; None if it is one."""
    validator: Any = _dialect_validator()
    bounds.start_clock()
    try:
        error: Any = next(validator.iter_errors(schema), None)
    except bounds.WorkLimitExceeded:
        return "", f"the check took longer than {bounds.CHECK_SECONDS:g} s; use a smaller schema"
    except RecursionError:
        return "", "the schema is nested too deep"
    return (_field_name(error.absolute_path), _clip(error.message)) if error is not None else None


@lru_cache(maxsize=1)
def _dialect_validator() -> Draft202012Validator:
    """Return the validator of schemas, bounded like that of arguments: the library's own compares every pair of types
    in a list. The documents of the dialect lose their `$schema`, by which the library would choose its own class."""
    from jsonschema import Draft202012Validator
    from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs]
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    known = {uri: dict(cast("Mapping[str, Any]", REGISTRY.contents(uri))) for uri in REGISTRY if "2020-12" in uri}
    for document in known.values():
        document.pop("$schema")
    resources = ((uri, DRAFT202012.create_resource(one)) for uri, one in known.items())
    registry = Registry[Any]().with_resources(resources).crawl()  # else the library's own documents have the anchors
    made = bounds.bounded_validator()
    root = known[Draft202012Validator.META_SCHEMA["$id"]]
    return made(root, registry=registry, format_checker=Draft202012Validator.FORMAT_CHECKER)


@lru_cache(maxsize=256)
def _validator(schema: str) -> Draft202012Validator:
    from referencing import Registry

    root: dict[str, Any] = json.loads(schema)  # noqa: TID251  our own text
    root.pop("$schema", None)  # a reference to a schema that names its dialect is checked by the library's own class
    # An empty registry: a reference to another document is a fault, never a request over the network.
    return bounds.bounded_validator()(root, registry=Registry())


def _error_path(error: Any) -> list[str]:
    return [str(part) for part in error.absolute_path]


def _explain(error: Any, name: str) -> Iterator[str]:
    at = _field_name(error.absolute_path) or name
    allowed = error.validator_value
    match error.validator:
        case "required":
            missing = [field for field in allowed if field not in error.instance]
            yield from (f"{_field_name([*error.absolute_path, field])}: is required" for field in missing)
        case "additionalProperties" if allowed is False:
            known = error.schema.get("properties", {})
            strangers = [
                _field_name([*error.absolute_path, _clip(field)]) for field in error.instance if field not in known
            ]
            yield from (f"{field}: no such field; there are: {', '.join(known) or 'none'}" for field in strangers)
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
    return name.removeprefix(".")


def _clip(text: str) -> str:
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."
