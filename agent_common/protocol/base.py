"""Base classes of messages: `Inbound` for requests, which are strict, and `Peer` for answers, which are tolerant."""

from __future__ import annotations

from typing import Any, TypeGuard

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
