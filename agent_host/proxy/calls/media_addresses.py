"""Refuse requests that make a provider fetch an address, by which a guest without network could send data out.

Providers know many shapes of message parts, so every string in a request is checked unless it is text for the model.
"""

from __future__ import annotations

import re
from typing import Any, Literal, cast

from agent_common.errors import LONGEST_FIELD, ToolFailure
from agent_common.net import HostPatterns, parse_url

from ...errors import InvalidCall

_Kind = Literal["words", "address", "any"]
# fmt: off
_WORDS = frozenset((
    "role", "type", "id", "name", "text", "content", "refusal", "thinking", "reasoning", "reasoning_content", "title",
    "signature", "description", "model", "user", "tool_call_id", "stop", "prompt_cache_key", "safety_identifier",
))
"""Members whose strings are never fetched; for `text` and `content` only in messages and in parts of `_TEXTS`."""
_PARTS = ("text", "content")
_TEXTS = frozenset((
    "None", "text", "input_text", "output_text", "refusal", "thinking", "reasoning", "tool_result", "content",
    "message", "summary_text", "reasoning_text", "reasoning.text", "reasoning.summary",
))
_OTHERS = frozenset((
    "function", "functions", "arguments", "args", "parameters", "input_schema", "response_format", "annotations",
    "metadata",
))
"""Members that are text for the model with all their content, such as schemas and the arguments of calls."""
# fmt: on
_NAMED = re.compile(r"ur[il]s?\Z", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{0,30}:[/\\]{2}|(?:https?|ftps?|s3|gs|file):", re.IGNORECASE)
_LONGEST_SCHEME = 64
_IGNORED = "".join(map(chr, range(0x21)))
"""Characters that programs which fetch addresses drop at their beginning."""


def check_addresses(payload: dict[str, Any], allowed: HostPatterns) -> None:
    """Raise InvalidCall, naming the first member with an address that providers may not be asked to fetch."""
    where = _find_forbidden(payload, "any", allowed)
    if where is not None:
        where = where.removeprefix(".")
        text = (
            "the provider would fetch this address; send a data: address, or have its host listed in MESH_MEDIA_HOSTS"
        )
        raise InvalidCall(f"{where}: {text}", param=where, code="address_not_allowed")


def _find_forbidden(value: Any, kind: _Kind, allowed: HostPatterns) -> str | None:
    """Return the path of the first address in a member's value that is not allowed, or None."""
    if isinstance(value, str):
        fetched = kind == "address" or (kind == "any" and _ADDRESS.match(_head(value)))
        return "" if fetched and not _may_be_fetched(value, allowed) else None
    if isinstance(value, dict):
        owner = cast("dict[str, Any]", value)
        for name, member in owner.items():
            if name in _OTHERS or (
                type(member) is str and name in _WORDS and (name not in _PARTS or "type" not in owner)
            ):
                continue  # the common case
            if (inner := _find_forbidden(member, _kind(name, owner), allowed)) is not None:
                return f".{name[:LONGEST_FIELD]}{inner}"
    elif isinstance(value, list):
        for index, element in enumerate(cast("list[Any]", value)):
            if (inner := _find_forbidden(element, kind, allowed)) is not None:
                return f"[{index}]{inner}"
    return None


def _kind(name: str, owner: dict[str, Any]) -> _Kind:
    if name in _WORDS:
        return "words" if name not in _PARTS or str(owner.get("type")) in _TEXTS else "any"
    return "address" if _NAMED.search(name) else "any"


def _head(text: str) -> str:
    """Return where an address would have its scheme: the text may have any length, and a pattern reads little of it."""
    return text.lstrip(_IGNORED)[:_LONGEST_SCHEME]


def _may_be_fetched(address: str, allowed: HostPatterns) -> bool:
    if not address or _head(address)[:5].lower() == "data:":
        return True
    try:
        return allowed.match(parse_url(address).host)
    except ToolFailure:
        return False
