"""Replace `${NAME}` and `${NAME:-default}` in the operator's file from the environment, so that it needs no secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

SUBSTITUTED_FIELDS = ("command", "args", "env", "url", "headers", "oauth", "read", "cwd")
"""Fields in which variables are replaced."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(slots=True)
class SubstitutedText:
    """A server's fields with their variables replaced."""

    fields: dict[str, Any]
    missing: list[str] = field(default_factory=list[str])
    """Faults for missing variables, each with the field and the variable."""
    values: list[str] = field(default_factory=list[str])
    """Values that came from the environment."""


def substitute(fields: Mapping[str, Any], environment: Mapping[str, str]) -> SubstitutedText:
    """Return a copy of the fields with variables replaced, and faults for missing variables."""
    filled = SubstitutedText({})

    def text(value: str, where: str) -> str:
        def one(found: re.Match[str]) -> str:
            name = found[1]
            default = found[2]
            if environment.get(name):
                filled.values.append(environment[name])
                return environment[name]
            if default is None:
                filled.missing.append(f"{where}: the environment has no {name}; set it, or write ${{{name}:-default}}")
            return found[0] if default is None else default

        return _VARIABLE.sub(one, value)

    def any_of(value: Any, where: str) -> Any:
        if isinstance(value, str):
            return text(value, where)
        if isinstance(value, list):
            return [any_of(one, f"{where}[{at}]") for at, one in enumerate(cast("list[Any]", value))]
        if isinstance(value, dict):
            return {name: any_of(one, f"{where}.{name}") for name, one in cast("dict[str, Any]", value).items()}
        return value

    filled.fields = {
        name: any_of(value, name) if name in SUBSTITUTED_FIELDS else value for name, value in fields.items()
    }
    return filled
