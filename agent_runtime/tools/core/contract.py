"""What a tool is, to those who write one and to the gate that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from agent_common.protocol import Folders, RequirementSet, SkillState
from agent_common.protocol.authority import Authority

from ...ports import HumanRequest, ToolContext, ToolSpec

LOCKED_TOOL_NAMES = (
    *("bash", "edit", "glob", "grep", "question", "read", "skill"),
    *("task", "todo", "tool_search", "web_fetch", "web_search", "write"),
)
"""The ids that belong to the product, also where a tool is not there yet."""
TOOL_ALIASES = {"spawn_agent": "task"}
"""Names under which a tool may be called too. A model reads of them in the tool's description, a caller in the card."""
OTHER_TOOL_NAMES = (
    *("create_skill", "learn", "list_skills", "memory_forget", "memory_save", "memory_search"),
    *("reload_skills", "remove_skill"),
)
"""The product's tools beside the locked ones."""
RESERVED_TOOL_NAMES = frozenset((*LOCKED_TOOL_NAMES, *TOOL_ALIASES, *OTHER_TOOL_NAMES))
"""Names that no skill and no server may take."""


def with_aliases(specs: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The tools with their further names, for callers."""
    further = [replace(spec, name=alias) for alias, name in TOOL_ALIASES.items() for spec in specs if spec.name == name]
    return [*specs, *further]


@dataclass(frozen=True, slots=True)
class Output:
    """What `run` returns in place of plain data when there is something to say about it."""

    data: Any
    truncated: bool = False
    output_path: str | None = None
    """Where the whole is, for the `read` tool."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further facts beside the data."""
    already_bounded: bool = False
    """The tool has bounded the text in its data itself; the gate does not cut it again."""
    added_tools: tuple[str, ...] = ()
    """Names of tools that join the turn at its next step."""


class NeedsHuman(Exception):
    """Raised by a tool or the gate: the call can only go on once a person has answered."""

    def __init__(self, request: HumanRequest) -> None:
        super().__init__(request.kind)
        self.request = request


WORKSPACE_AND_SCRATCH = ["{workspace}", "{ad-hoc}"]
READ_REQUIREMENTS = RequirementSet(fs=Folders(read=WORKSPACE_AND_SCRATCH))
WRITE_REQUIREMENTS = RequirementSet(fs=Folders(read=WORKSPACE_AND_SCRATCH, write=WORKSPACE_AND_SCRATCH))


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """What one call touches, as far as its arguments tell."""

    subjects: tuple[str, ...] = ("",)
    """What the patterns of permission rules are held against: paths, commands, hosts."""
    aliases: tuple[tuple[str, ...], ...] = ()
    """Other names of each subject, under which a rule may deny it too."""
    starts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Subjects of which only this beginning is certain: a rule that allows must allow whatever follows."""
    opaque: str = ""
    """Why it may touch more than can be told, if so: only a rule about everything allows it then."""
    anything: bool = False
    """Of what is opaque: nothing at all can be told, so that every rule that does not allow is about it."""
    requires: RequirementSet | None = None
    """Less than the tool requires in general; none: as much."""
    suggested_patterns: tuple[str, ...] = ()
    """Patterns for rules that would allow calls of this kind for good; none: the subjects themselves."""


RunTool = Callable[[Mapping[str, Any], ToolContext], Awaitable[Any]]
"""From arguments that fit the schema, and who calls, to JSON data or an Output. Raises ToolFailure for the model, and
NeedsHuman where a person must answer first."""


DescribeAccess = Callable[[Mapping[str, Any], ToolContext], Awaitable[AccessRequest]]
"""What a call with these arguments touches. Raises ToolFailure."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A capability with a schema. The gate runs it; nothing else calls `run`."""

    spec: ToolSpec
    run: RunTool
    requires: RequirementSet = field(default_factory=RequirementSet)
    """What it may touch. It asks for authority with this, it never gains any by it."""
    timeout: float | None = None
    """Seconds; none: the default of the gate."""
    describe_access: DescribeAccess | None = None
    """None: a call touches whatever the tool requires."""
    rule_names: tuple[str, ...] = ()
    """How rules and manifests may call it beside its id, such as `mcp:SERVER:TOOL`."""
    result_doc: str = ""
    """Fields of the data it answers with, for the page of tools."""
    limits_doc: str = ""
    """Its limits, for the page of tools; made from the constants that hold."""


class ToolProvider(Protocol):
    """A source of tools that come and go."""

    async def ready(self, authority: Authority) -> None:
        """Called before a turn with this authority begins. Takes little time, whatever happens, and never raises."""
        ...

    def tools(self) -> Sequence[Tool]:
        """Those that can be called now."""
        ...

    def states(self) -> Sequence[SkillState]:
        """All that were found, also those that cannot be called, with the reason."""
        ...
