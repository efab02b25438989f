"""What a server says of its tools beyond the short descriptions that a model's list shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, cast

from .schemas import TEXT_LIMIT, plain_text

DETAILS_LIMIT = 4000
"""Most characters of all that is said of one tool."""
INSTRUCTIONS_LIMIT = 8000
"""Most characters of the instructions of a server."""
MAX_LINES = 50
"""Most parameters whose long descriptions are kept."""
MAX_DEPTH = 4
"""Levels of objects in which parameters are looked for."""


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


def _long(schema: Mapping[str, Any], at: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the names and descriptions of the parameters whose description is not shown whole."""
    properties: Any = schema.get("properties")
    if not isinstance(properties, dict) or depth > MAX_DEPTH:
        return
    for name, one in cast("Mapping[str, Any]", properties).items():
        if not isinstance(one, dict):
            continue
        parameter = cast("Mapping[str, Any]", one)
        path = f"{at}{plain_text(str(name), 60)}"
        text = parameter.get("description")
        if isinstance(text, str) and len(text) > TEXT_LIMIT:
            yield path, text
        yield from _long(parameter, f"{path}.", depth + 1)
