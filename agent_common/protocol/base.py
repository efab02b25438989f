"""Two kinds of message: what a caller sends is strict, what a peer answers is tolerant."""

from __future__ import annotations

from typing import Any, TypeGuard

from pydantic import BaseModel, ConfigDict

from .docs import describe


class Inbound(BaseModel):
    """A message a caller sends us: unknown fields and wrong types are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True, json_schema_extra=describe)


class Peer(BaseModel):
    """A message a peer or this product answers with: fields we do not know are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True, json_schema_extra=describe)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """True for a JSON object."""
    return isinstance(value, dict)
