"""An agent as data: a prompt, a tool list, a model, permissions. A new agent needs a file, never code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator

from agent_common.protocol import NewRule, RequirementSet, Rule, authority
from agent_common.protocol.authority import ALL_GRANTED, Layer

Mode = Literal["primary", "subagent", "all", "internal"]
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"


class InvalidManifest(Exception):
    """The file is not an agent; the text names every fault and its place."""


class _ManifestFile(BaseModel):
    """A manifest as it is written down."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(pattern=NAME_PATTERN)
    """The file's name unless set."""
    description: str = Field(default="", max_length=1000)
    """What it is for, shown to agents that may call it."""
    mode: Mode
    """Whether people may choose it (`primary`), other agents call it (`subagent`), both (`all`), or the runtime alone
    (`internal`)."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Unset, the model of the session or of the agent that calls it."""
    tools: list[str] = Field(default_factory=lambda: ["*"], max_length=200)
    """Names or patterns of the tools it has."""
    permissions: list[NewRule] = Field(default_factory=list[NewRule], max_length=200)
    """What no rule covers asks a person, and is refused where none is."""
    grant: RequirementSet | None = None
    """What it may touch at most; unset, all that the host allows."""
    inspectable: bool = False
    """As a subagent it leaves a session of its own to look into; else its transcript is in the caller's result."""
    max_steps: int | None = Field(default=None, ge=1, le=500)
    """Model calls in one turn, where that is less than the host allows."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Unset, whatever the provider takes."""
    prompt: str = Field(default="", max_length=100_000, validation_alias=AliasChoices("prompt", "system_prompt"))
    """What it is told about itself; in a Markdown file the text below the front matter."""

    @field_validator("tools", mode="before")
    @classmethod
    def _as_names(cls, value: Any) -> Any:
        return [name.strip() for name in value.split(",")] if isinstance(value, str) else value

    @field_validator("permissions", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return _rules(value) if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownArgumentType]

    @field_validator("grant")
    @classmethod
    def _usable(cls, value: RequirementSet | None) -> RequirementSet | None:
        return require_usable_grant(value)


def require_usable_grant(grant: RequirementSet | None) -> RequirementSet:
    """A grant as somebody has written it. Raises ValueError; an empty one could be meant either way."""
    if grant is None:
        raise ValueError("write {} for nothing, or leave it out for all there is")
    if fault := authority.requirements_fault(grant):
        raise ValueError(fault)
    return grant


@dataclass(frozen=True, slots=True)
class Manifest:
    """One agent."""

    name: str
    description: str
    mode: Mode
    layer: Layer
    prompt: str = ""
    model: str | None = None
    inspectable: bool = False
    max_steps: int | None = None
    temperature: float | None = None
    source: Literal["builtin", "file"] = "file"

    @property
    def audience(self) -> str:
        """Whoever may run it, where that is not everyone."""
        return {"primary": "people", "subagent": "other agents", "internal": "the runtime"}.get(self.mode, "everyone")

    @property
    def for_people(self) -> bool:
        return self.mode in ("primary", "all")

    @property
    def for_agents(self) -> bool:
        return self.mode in ("subagent", "all")


def parse_manifest(name: str, content: Mapping[str, Any], source: Literal["builtin", "file"] = "file") -> Manifest:
    """The agent that a file describes; `name` is the file's. Raises BadManifest."""
    try:
        written = _ManifestFile.model_validate({"name": name, **content})
    except ValidationError as error:
        raise InvalidManifest("; ".join(_fault(one) for one in error.errors())) from None
    rules = tuple(Rule(**rule.model_dump(), source="manifest") for rule in written.permissions)
    return Manifest(
        name=written.name,
        description=" ".join(written.description.split()),
        mode=written.mode,
        layer=Layer(written.grant or ALL_GRANTED, tuple(written.tools), rules),
        prompt=written.prompt.strip(),
        model=written.model,
        inspectable=written.inspectable,
        max_steps=written.max_steps,
        temperature=written.temperature,
        source=source,
    )


def _rules(written: Mapping[Any, Any]) -> list[Any]:
    """`{bash: {"git *": allow}, edit: deny}` as a list of rules."""
    found: list[Any] = []
    for permission, value in written.items():
        patterns = cast("Mapping[Any, Any]", value if isinstance(value, Mapping) else {"*": value})
        found += [{"permission": permission, "pattern": one, "action": action} for one, action in patterns.items()]
    return found


def _fault(error: Any) -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]).removeprefix(".")
    text = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        text = f"no such field; there are: {', '.join(_ManifestFile.model_fields)}"
    return f"{where or 'manifest'}: {text}"
