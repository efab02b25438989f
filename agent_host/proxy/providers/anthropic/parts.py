"""Convert the parts of a user's message or of a tool's result: text, images, PDF files."""

from __future__ import annotations

import re
from typing import Any

from ....errors import ProviderFailed
from ...json_access import as_list, as_object

_DATA = re.compile(r"data:([a-z0-9.+/-]+);base64,", re.IGNORECASE)
_IMAGES = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))


def user_blocks(content: object) -> list[dict[str, Any]]:
    """Return the blocks of a content. Raises ProviderFailed, with status 400, for a part that Claude does not take."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    blocks: list[dict[str, Any]] = []
    for part in as_list(content):
        blocks += user_blocks(part) if isinstance(part, str) else _block(as_object(part))
    return blocks


def _block(part: dict[str, Any]) -> list[dict[str, Any]]:
    match part.get("type"):
        case "text" | "input_text" | "output_text":
            return user_blocks(str(part.get("text") or ""))
        case "image_url":
            image: Any = part.get("image_url")
            return [{"type": "image", "source": _source(str(as_object(image).get("url") or image), "image_url")}]
        case "file":
            file = as_object(part.get("file"))
            named = {"title": file["filename"]} if isinstance(file.get("filename"), str) else {}
            return [{"type": "document", "source": _source(str(file.get("file_data")), "file.file_data"), **named}]
        case kind:
            raise _refused(f"Claude takes no part of the type {kind!r}")


def _source(address: str, where: str) -> dict[str, Any]:
    found = _DATA.match(address)
    if found is None:
        if address.startswith("https://"):
            return {"type": "url", "url": address}
        raise _refused(f"{where}: must be a data: address in base64, or one of https")
    kind = found[1].lower()
    if (kind not in _IMAGES) if where == "image_url" else (kind != "application/pdf"):
        takes = ", ".join(sorted(_IMAGES)) if where == "image_url" else "application/pdf"
        raise _refused(f"{where}: Claude takes {takes}, not {kind}")
    return {"type": "base64", "media_type": kind, "data": address[found.end() :]}


def _refused(message: str) -> ProviderFailed:
    error = ProviderFailed(f"messages: {message}", code="invalid_request")
    error.status = 400
    return error
