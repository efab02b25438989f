"""Base classes of messages: `Inbound` for requests, which are strict, and `Peer` for answers, which are tolerant."""

from __future__ import annotations

from typing import Any, TypeGuard, cast

from pydantic import BaseModel, ConfigDict

from .docs import describe


class Inbound(BaseModel):
    """Base of messages that a caller sends. Unknown fields and wrong types are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True, json_schema_extra=describe)


class Peer(BaseModel):
    """Base of messages that a peer or this product answers with. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True, json_schema_extra=describe)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether the value is a JSON object."""
    return isinstance(value, dict)


def same_json(one: object, other: object) -> bool:
    """Whether two JSON values are the same. Unlike for Python, true is not 1, nor false 0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(same_json(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        both = cast("list[object]", one), cast("list[object]", other)
        return len(both[0]) == len(both[1]) and all(map(same_json, *both))
    return one == other
