"""Build the parts that a tool is declared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ports import ToolContext
from .contract import AccessRequest, DescribeAccess


def object_schema(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of arguments of which some must be given and no others are taken."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def touches(argument: str) -> DescribeAccess:
    """Return what describes a call by one of its arguments, for the patterns of rules."""

    async def describe(arguments: Mapping[str, Any], _: ToolContext) -> AccessRequest:
        return AccessRequest((arguments.get(argument, ""),), suggested_patterns=("*",))

    return describe
