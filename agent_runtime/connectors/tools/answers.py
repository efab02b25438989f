"""Mend what a server answers to a call and to the handshake, so that what is readable in it is read.

A call has run once its answer is here: an answer that is refused for its form loses words that cannot be had again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, cast

from .schemas import plain_text

COMPLETE = "complete"
"""The type that the protocol gives to a result without one."""
PLAIN_VERSION = "2025-03-26"
"""The revision of the protocol that is assumed where a server names none."""
DEEPEST = 90
"""Most levels of structured content that stays so: a result of a tool has at most a hundred."""
UNREAD_LIMIT = 100_000
"""Most characters of a part of an unknown form that are shown as they are."""
UNREAD_TEXT_LIMIT = 2000
"""Most characters of one text in it, which may be an encoded file."""
_CALL_FIELDS = frozenset(
    {"content", "structuredContent", "structured_content", "isError", "is_error", "_meta", "resultType"}
)

Fields = dict[str, Any]


def mend_call_result(result: Mapping[str, Any]) -> Fields:
    """Return the answer to `tools/call` as the protocol wants it. A part of an unknown form becomes text."""
    if isinstance(older := result.get("toolResult"), dict) and "content" in older:
        result = {**result, **cast("Fields", older)}
    if result.get("resultType", COMPLETE) != COMPLETE and "inputRequests" in result:
        return dict(result)  # it asks for input, which has another form
    content = result.get("content")
    structured = result.get("structuredContent", result.get("structured_content"))
    blocks = cast("list[Any]", content) if isinstance(content, list) else [] if content is None else [content]
    found: Fields = {
        "resultType": COMPLETE,
        "content": [_block(one) for one in blocks],
        "isError": _is_yes(result.get("isError")) or _is_yes(result.get("is_error")),
    }
    if structured is not None and _is_deeper(structured, DEEPEST):
        found["content"].append(_text(_as_json(structured)))
    elif structured is not None:
        # Servers wrap what is no object, which older revisions do not allow.
        finite = _finite(structured)
        found["structuredContent"] = finite if isinstance(finite, dict) else {"result": finite}
    rest = {key: one for key, one in result.items() if key not in _CALL_FIELDS}
    if not blocks and structured is None and rest:
        found["content"] = [_text(_as_json(rest))]
    return found


def mend_handshake(result: Mapping[str, Any]) -> Fields:
    """Return the answer to `initialize` or `server/discover` as the protocol wants it."""
    found: Fields = {**result, "resultType": COMPLETE, "capabilities": _capabilities(result.get("capabilities"))}
    if "supportedVersions" not in result:
        found["serverInfo"] = _server_info(result.get("serverInfo"))
        found["protocolVersion"] = _word(result.get("protocolVersion")) or PLAIN_VERSION
    for word, kind in (("instructions", str), ("_meta", dict)):
        if not isinstance(found.get(word), kind):
            found.pop(word, None)
    return found


def _capabilities(given: Any) -> Fields:
    """Return the capabilities, as objects. What PHP writes as an empty list, and others as `true`, is one."""
    listed: Fields = cast("Fields", given) if isinstance(given, dict) else {}
    tools_entry = listed.get("tools")
    if tools_entry is None or tools_entry is False:
        return {}  # of other capabilities nothing is used, and their forms differ between revisions
    tools: Fields = cast("Fields", tools_entry) if isinstance(tools_entry, dict) else {}
    return {"tools": {key: one for key, one in tools.items() if key == "listChanged" and isinstance(one, bool)}}


def _server_info(given: Any) -> Fields:
    info = cast("Fields", given) if isinstance(given, dict) else {}
    return {word: one if isinstance(one := info.get(word), str) else "unknown" for word in ("name", "version")}


def _block(block: Any) -> Fields:
    """Return one part of an answer in one of the forms of the protocol."""
    if isinstance(block, str):
        return _text(block)
    if not isinstance(block, dict):
        return _text(_as_json(block))
    given = cast("Fields", block)
    kind = given.get("type")
    if isinstance(given.get("text"), str) and kind in ("text", None):
        return _text(given["text"])
    known = _known_block(kind, given)
    return known or _text(_describe(kind, given))


def _known_block(kind: Any, given: Fields) -> Fields | None:
    """Return a block of a known type with the fields that are used, or None if one that it needs is missing."""
    match kind:
        case "image" | "audio" if isinstance(given.get("data"), str):
            return {"type": kind, "data": given["data"], "mimeType": _word(given.get("mimeType")) or "unknown"}
        case "resource_link" if uri := _word(given.get("uri")):
            extra = {word: given[word] for word in ("mimeType", "description") if _word(given.get(word))}
            size = given.get("size")
            extra |= {"size": size} if isinstance(size, int) and not isinstance(size, bool) else {}
            return {"type": kind, "uri": uri, "name": _word(given.get("name")) or uri, **extra}
        case "resource" if isinstance(given.get("resource"), dict):
            inner = cast("Fields", given["resource"])
            held = {word: inner[word] for word in ("text", "blob") if isinstance(inner.get(word), str)}
            if not held or not _word(inner.get("uri")):
                return None
            extra = {"mimeType": inner["mimeType"]} if _word(inner.get("mimeType")) else {}
            return {"type": kind, "resource": {"uri": inner["uri"], **extra, **held}}
        case _:
            return None


def _describe(kind: Any, given: Fields) -> str:
    """Return what can be read of a part of an unknown form, under its name."""
    head = f"[a part of type {plain_text(str(kind), 40)!r}, whose form is not known]"
    if isinstance(text := given.get("text"), str):
        return f"{head} {text}"
    return f"{head} {_as_json({key: one for key, one in given.items() if key != 'type'})}"


def _as_json(value: Any) -> str:
    return _shorten(json.dumps(_with_short_texts(value), ensure_ascii=False), UNREAD_LIMIT)


def _with_short_texts(value: Any) -> Any:
    if isinstance(value, str):
        return _shorten(value, UNREAD_TEXT_LIMIT)
    if isinstance(value, dict):
        return {key: _with_short_texts(one) for key, one in cast("Fields", value).items()}
    return [_with_short_texts(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def _finite(value: Any) -> Any:
    """Return a value of JSON with NaN and infinite numbers as texts: no JSON that we write has them. How deep it may
    be, the package has checked."""
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in cast("Fields", value).items()}
    return [_finite(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether a value has more levels of objects and lists than these."""
    level: list[Any] = [value]
    for _ in range(levels):
        level = list(chain.from_iterable(map(_inner_values, level)))
    return any(isinstance(one, dict | list) for one in level)


def _inner_values(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("Fields", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _text(text: str) -> Fields:
    return {"type": "text", "text": text}


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_yes(value: Any) -> bool:
    return value.lower() in ("true", "1", "yes") if isinstance(value, str) else value in (True, 1)
