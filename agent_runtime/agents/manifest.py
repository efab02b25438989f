"""An agent as data: prompt, tools, model and permissions. A new agent needs a file, not code."""

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
    """Raised if a file is not a valid agent; the text names every fault and its place."""


class _ManifestFile(BaseModel):
    """The fields of a manifest's file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(pattern=NAME_PATTERN)
    """Default: the name of the file."""
    description: str = Field(default="", max_length=1000)
    """The agent's purpose, shown to agents that may call it."""
    mode: Mode
    """Its users: people (`primary`), other agents (`subagent`), both (`all`), or only the runtime (`internal`)."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Default: the model of the session, or of the calling agent."""
    tools: list[str] = Field(default_factory=lambda: ["*"], max_length=200)
    """Names or patterns of its tools."""
    permissions: list[NewRule] = Field(default_factory=list[NewRule], max_length=200)
    """Rules for its calls. A call that no rule matches needs a person's approval, and is refused if there is no
    person."""
    grant: RequirementSet | None = None
    """Upper limit of what it may touch; None: all that the host allows."""
    inspectable: bool = False
    """As a subagent it gets a session of its own to inspect; otherwise its transcript is in the caller's result."""
    max_steps: int | None = Field(default=None, ge=1, le=500)
    """Maximum model calls per turn, within the host's limit."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """None: the provider's default."""
    prompt: str = Field(default="", max_length=100_000, validation_alias=AliasChoices("prompt", "system_prompt"))
    """Its system prompt; in a Markdown file the text below the front matter."""

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
    """Return a grant from a file if it is usable. Raises ValueError; None is refused because it would be ambiguous."""
    if grant is None:
        raise ValueError("write {} to grant nothing, or leave it out to grant everything")
    if fault := authority.requirements_fault(grant):
        raise ValueError(fault)
    return grant


@dataclass(frozen=True, slots=True)
class Manifest:
    """An agent, loaded and validated."""

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
        """Those who may run it, in words for messages."""
        return {"primary": "people", "subagent": "other agents", "internal": "the runtime"}.get(self.mode, "everyone")

    @property
    def for_people(self) -> bool:
        return self.mode in ("primary", "all")

    @property
    def for_agents(self) -> bool:
        return self.mode in ("subagent", "all")


def parse_manifest(name: str, content: Mapping[str, Any], source: Literal["builtin", "file"] = "file") -> Manifest:
    """Return the agent that a file describes; `name` is the file's. Raises InvalidManifest."""
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
    """Convert `{bash: {"git *": allow}, edit: deny}` to a list of rules."""
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
