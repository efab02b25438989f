"""Reading JSON that nobody has checked: what is not there, or is something else, reads as empty."""

from __future__ import annotations

from typing import Any, cast


def as_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def object_list(value: object) -> list[dict[str, Any]]:
    """Return the objects in the value if it is a list; empty ones are left out."""
    return [found for found in map(as_object, as_list(value)) if found]


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or the texts of its parts."""
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in object_list(content))
