"""The operator's permissions for this data directory: a ceiling over every agent, and rules for all sessions.

They are read once at start from `{data}/permissions.yaml`, where no tool can write.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from agent_common.protocol import NewRule, RequirementSet, Rule
from agent_common.protocol.authority import ALL_GRANTED

from ..errors import StartError
from . import safe_yaml
from .manifest import require_usable_grant

FILE = "permissions.yaml"


class _PermissionsFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    ceiling: RequirementSet | None = None
    """Upper limit of what any agent may touch."""
    rules: list[NewRule] = Field(default_factory=list[NewRule], max_length=200)
    """Rules of scope `project`."""

    @field_validator("ceiling")
    @classmethod
    def _usable(cls, value: RequirementSet | None) -> RequirementSet | None:
        return require_usable_grant(value)


@dataclass(frozen=True, slots=True)
class ProjectRules:
    """The operator's ceiling and rules."""

    ceiling: RequirementSet = ALL_GRANTED
    rules: tuple[Rule, ...] = ()

    @classmethod
    def read(cls, data_dir: Path) -> ProjectRules:
        """Read the file; without one there are no restrictions. Raises StartError with every fault."""
        path = data_dir / FILE
        try:
            loaded: Any = safe_yaml.load(path.read_text("utf-8-sig"))
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError, safe_yaml.UnsafeYaml) as error:
            raise StartError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
        if loaded is not None and not isinstance(loaded, dict):
            raise StartError(f"{path}: must have the fields rules (a list of permission, pattern, action) and ceiling")
        try:
            written = _PermissionsFile.model_validate(loaded or {})
        except ValidationError as error:
            lines = (
                f"{path}: {'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}"
                for one in error.errors()
            )
            raise StartError("\n".join(lines)) from None
        rules = tuple(Rule(**rule.model_dump(), source="project") for rule in written.rules)
        return cls(written.ceiling or ALL_GRANTED, rules)
