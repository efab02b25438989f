"""Read unvalidated JSON. A value that is missing or has another type reads as empty."""

from __future__ import annotations

from typing import Any, cast


def as_object(value: object) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def object_list(value: object) -> list[dict[str, Any]]:
    """Return the non-empty objects in the value if it is a list, else an empty list."""
    return [found for found in map(as_object, as_list(value)) if found]


def text_of(content: object) -> str:
    """Return the text of a message's content, which is a string or a list of parts."""
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in object_list(content))
