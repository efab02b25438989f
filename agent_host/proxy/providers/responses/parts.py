"""Convert the parts of a message or of a tool's result: text, images, files."""

from __future__ import annotations

from typing import Any

from ....errors import ProviderFailed
from ...json_access import as_list, as_object


def input_parts(content: object) -> list[dict[str, Any]]:
    """Return the parts of a content. Raises ProviderFailed, with status 400, for one that the API does not take."""
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}] if content else []
    parts: list[dict[str, Any]] = []
    for part in as_list(content):
        parts += input_parts(part) if isinstance(part, str) else _part(as_object(part))
    return parts


def refused(message: str) -> ProviderFailed:
    """Return the error for a request that cannot be converted."""
    error = ProviderFailed(message, code="invalid_request")
    error.status = 400
    return error


def _part(part: dict[str, Any]) -> list[dict[str, Any]]:
    match part.get("type"):
        case "text" | "input_text" | "output_text":
            return input_parts(str(part.get("text") or ""))
        case "image_url":
            image: Any = part.get("image_url")
            about = as_object(image)
            detail = {"detail": about["detail"]} if about.get("detail") else {}
            return [{"type": "input_image", "image_url": str(about.get("url") or image), **detail}]
        case "file":
            named = {name: value for name, value in as_object(part.get("file")).items() if value is not None}
            return [{"type": "input_file", **named}]
        case kind:
            raise refused(f"messages: the Responses API takes no part of the type {kind!r}")
