"""Convert the answer of a server's tool into the data of a tool result: text unchanged, other parts described."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from agent_common.json_reader import JsonRefused, read_json

from ...errors import ToolFailure
from ...workspace import decode_text
from ..rate_limit import JSON_LIMITS

if TYPE_CHECKING:
    from mcp_types import BlobResourceContents, CallToolResult, ContentBlock, TextResourceContents

MAX_PARTS = 100
"""Most parts of one answer that are not text."""
_TEXT_TYPE = re.compile(
    r"text/.*|application/(?:.*script|graphql|json[\w-]*|sql|toml|x-ndjson|x-sh|x-yaml|xml|yaml)|.*\+(?:json|xml|yaml)"
)
_ANY_TYPE = "application/octet-stream"


def result_data(result: CallToolResult) -> Any:
    """Return a string if the answer is only text, else an object of `text?`, `structured?` and `parts?`. Raises
    ToolFailure if the answer is an error."""
    texts = [block.text for block in result.content if block.type == "text"]
    text = "\n".join(texts)
    others = [block for block in result.content if block.type != "text"]
    structured = result.structured_content
    unwrapped = cast("dict[str, Any]", structured)["result"] if _is_wrapped(structured) else structured
    if result.is_error:
        words = [text, *(_text_of(block.resource) for block in others if block.type == "resource")]
        if unwrapped is not None and not _repeats(texts, unwrapped):
            words.append(unwrapped if isinstance(unwrapped, str) else json.dumps(unwrapped, ensure_ascii=False))
        raise ToolFailure("\n".join(filter(None, words)).strip() or "the tool failed and does not say why")
    if not others and (structured is None or text == unwrapped):
        return text
    found: dict[str, Any] = {}
    if text and not _repeats(texts, unwrapped):
        found["text"] = text
    if structured is not None:
        found["structured"] = structured
    if others:
        found["parts"] = [_describe_block(block) for block in others[:MAX_PARTS]]
    if len(others) > MAX_PARTS:
        found["parts_left_out"] = len(others) - MAX_PARTS
    return found


def _is_wrapped(structured: Any) -> bool:
    """Whether the only member is `result`, in which servers wrap values that are not objects."""
    return isinstance(structured, dict) and structured.keys() == {"result"}


def _repeats(texts: Sequence[str], value: Any) -> bool:
    """Whether the texts only repeat the structured content, for clients that read only text."""
    if isinstance(value, list) and len(texts) == len(cast("list[Any]", value)):
        return all(_is_json(text, one) for text, one in zip(texts, cast("list[Any]", value), strict=True))
    return len(texts) == 1 and _is_json(texts[0], value)


def _is_json(text: str, value: Any) -> bool:
    try:
        return text == value or read_json(text.encode(errors="replace"), JSON_LIMITS) == value
    except JsonRefused:
        return False


def _text_of(resource: TextResourceContents | BlobResourceContents) -> str | None:
    """Return the text of a resource, also if it is sent as bytes; None if it is none."""
    if isinstance(text := getattr(resource, "text", None), str):
        return text
    kind = (resource.mime_type or _ANY_TYPE).partition(";")[0].strip().lower()
    try:
        data = b64decode("".join(str(getattr(resource, "blob", "")).split()), validate=True)
        return decode_text(data) if _TEXT_TYPE.fullmatch(kind) else _plain_text(data) if kind == _ANY_TYPE else None
    except ValueError:
        return None


def _plain_text(data: bytes) -> str | None:
    return None if b"\0" in data else data.decode()


def _describe_block(block: ContentBlock) -> Mapping[str, Any]:
    match block.type:
        case "image" | "audio":
            return _without_none(type=block.type, mime_type=block.mime_type, bytes=len(block.data) * 3 // 4)
        case "resource_link":
            return _without_none(
                type=block.type,
                uri=str(block.uri),
                name=block.name,
                mime_type=block.mime_type,
                description=block.description,
                bytes=block.size,
            )
        case "resource":
            inner = block.resource
            text = _text_of(inner)
            size = None if text is not None else len(getattr(inner, "blob", "")) * 3 // 4
            return _without_none(type=block.type, uri=str(inner.uri), mime_type=inner.mime_type, text=text, bytes=size)
        case _:
            return {"type": block.type}


def _without_none(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
