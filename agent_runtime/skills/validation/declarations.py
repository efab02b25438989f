"""Check what a worker says about its skills: the worker is as untrusted as the plugin in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...ports import ToolSpec
from ...tools import RESERVED_TOOL_NAMES, schema_fault
from .schema_keywords import KEYWORDS

NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
DESCRIPTION_LIMIT = 2000
SCHEMA_LIMIT = 32 * 1024
MAX_VALUES = 2000
"""Values in a schema; the cost of checking it grows faster than their number."""
MAX_DEPTH = 8
MAX_VALUE_DEPTH = 32
"""Levels of a whole schema, defaults included, so that a request with it can still be encoded."""
MAX_NUMBER = 2**63 - 1
"""The largest number in a schema: JSON has no bound, but its readers have."""
MAX_TIMEOUT = 3600.0


class DeclarationRefused(Exception):
    """This declaration cannot become a tool."""


@dataclass(frozen=True, slots=True)
class SkillDeclaration:
    """A skill that may become a tool."""

    spec: ToolSpec
    timeout: float | None


def check_declaration(skill: Mapping[str, Any]) -> SkillDeclaration:
    """Return the skill as declared. Raises DeclarationRefused that names the field and the fix."""
    name = skill.get("name")
    description = skill.get("description")
    timeout = skill.get("timeout")
    if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
        raise DeclarationRefused("name: must be 1 to 64 letters, digits, _ or -, not beginning with a digit")
    if name in RESERVED_TOOL_NAMES:
        raise DeclarationRefused(f"name: {name} is a tool of the runtime; take another name")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= DESCRIPTION_LIMIT:
        raise DeclarationRefused(
            f"description: must say what the skill does, in at most {DESCRIPTION_LIMIT} characters"
        )
    if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout <= MAX_TIMEOUT):
        raise DeclarationRefused(f"timeout: must be seconds, more than 0 and at most {MAX_TIMEOUT:g}")
    spec = ToolSpec(
        name=name,
        description=description.strip(),
        parameters=_check_parameters(skill.get("parameters")),
        source="custom",
        read_only=skill.get("read_only") is True,
        idempotent=skill.get("idempotent") is True,
    )
    return SkillDeclaration(spec, timeout)


def _check_parameters(schema: Any) -> Mapping[str, Any]:
    try:
        size = len(json.dumps(schema))
    except RecursionError:
        raise DeclarationRefused("parameters: are nested too deep") from None
    if size > SCHEMA_LIMIT:
        raise DeclarationRefused(f"parameters: must be at most {SCHEMA_LIMIT // 1024} KiB")
    _check_size(schema)
    _check_keywords(schema, "parameters", 0)
    fault = schema_fault(schema)
    if fault is not None:
        raise DeclarationRefused(f"parameters: {fault}")
    return schema


def _check_size(schema: Any) -> None:
    """Refuse a schema that takes long to check or that a provider could not take: every request contains all
    schemas."""
    level = [schema]
    count = 0
    for _ in range(MAX_VALUE_DEPTH):
        count += len(level)
        if count > MAX_VALUES:
            raise DeclarationRefused(f"parameters: must have at most {MAX_VALUES} values")
        if any(isinstance(one, (int, float)) and not -MAX_NUMBER <= one <= MAX_NUMBER for one in level):
            raise DeclarationRefused(f"parameters: a number is beyond {MAX_NUMBER}")
        level = [child for one in level for child in _children(one)]
    if level:
        raise DeclarationRefused("parameters: are nested too deep")


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def _check_keywords(schema: Any, where: str, depth: int) -> None:
    """Refuse what is not a schema of the permitted keywords."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise DeclarationRefused(f"{where}: must be a JSON Schema")
    if depth > MAX_DEPTH:
        raise DeclarationRefused(f"{where}: is nested more than {MAX_DEPTH} levels deep")
    for keyword, value in cast("dict[str, Any]", schema).items():
        if keyword not in KEYWORDS:
            raise DeclarationRefused(f"{where}: the keyword {keyword} is not supported; check it in the function")
        for name, inner in _subschemas(keyword, value):
            _check_keywords(inner, f"{where}.{name}", depth + 1)


def _subschemas(keyword: str, value: Any) -> list[tuple[str, Any]]:
    """Return the schemas inside a keyword's value, by name."""
    match keyword, value:
        case "properties", dict():
            return list(value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case (("anyOf" | "oneOf" | "allOf"), list()):
            return [(f"{keyword}[{number}]", one) for number, one in enumerate(value)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case (("items" | "additionalProperties" | "not"), _):
            return [(keyword, value)]
        case _:
            return []
