"""What a server says of its tools beyond the short descriptions that a model's list shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, cast

from .schemas import TEXT_LIMIT, plain_text

DETAILS_LIMIT = 4000
"""Most characters of all that is said of one tool."""
INSTRUCTIONS_LIMIT = 8000
"""Most characters of the instructions of a server."""
MAX_LINES = 50
"""Most parameters whose long descriptions are kept."""
MAX_DEPTH = 8
"""Levels of a schema in which parameters are looked for."""


def visible_text(text: str, limit: int) -> str:
    """Return the text with its line ends, without invisible characters, and shortened."""
    shown = "".join(sign for sign in text[: limit * 2] if sign.isprintable() or sign in "\n\t").strip()
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def full_description(description: str, schema: Mapping[str, Any]) -> str:
    """Return all that is said of a tool and of its parameters; empty if a model's list shows all of it."""
    long = [f"{name}: {visible_text(text, DETAILS_LIMIT)}" for name, text in islice(_long(schema), MAX_LINES)]
    if not long and len(plain_text(description, TEXT_LIMIT + 1)) <= TEXT_LIMIT:
        return ""
    return visible_text("\n".join((visible_text(description, DETAILS_LIMIT), *long)), DETAILS_LIMIT)


def _long(schema: Mapping[str, Any], path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the names and descriptions of the parameters whose description is not shown whole. Those of a definition
    are below its name, as references may lead to it from anywhere."""
    if depth > MAX_DEPTH:
        return
    for inner, part in _parts(schema, path):
        text = part.get("description")
        if inner and isinstance(text, str) and len(text) > TEXT_LIMIT:
            yield inner, text
        yield from _long(part, inner, depth + 1)


def _parts(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the schemas directly below this one, each with the path of its parameter."""
    for word in ("properties", "$defs", "definitions"):
        named: Any = schema.get(word)
        for name, one in cast("Mapping[Any, Any]", named if isinstance(named, dict) else {}).items():
            if isinstance(one, dict):
                shown = plain_text(str(name), 60)
                yield (f"{path}.{shown}" if path else shown), cast("Mapping[str, Any]", one)
    lists = [
        cast("list[Any]", one) for word in ("anyOf", "oneOf", "allOf") if isinstance(one := schema.get(word), list)
    ]
    for one in chain([schema.get("items")], *lists):
        if isinstance(one, dict):
            yield path, cast("Mapping[str, Any]", one)
