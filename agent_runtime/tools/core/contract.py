"""The contract of a tool, for authors of tools and for the gate."""

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
"""Ids reserved for built-in tools, even if such a tool is not present."""
TOOL_ALIASES = {"spawn_agent": "task"}
"""Further names of tools, mentioned in the tool's description for the model and in the agent's card for callers."""
OTHER_TOOL_NAMES = (
    *("create_skill", "learn", "list_skills", "memory_forget", "memory_save", "memory_search"),
    *("notify_user", "reload_skills", "remove_skill"),
)
"""The other built-in tools."""
MESH_TOOL_NAMES = (
    *("ask_agent", "call_service", "claim", "get_artifact", "hand_off", "list_agents", "list_artifacts"),
    *("list_blackboard", "publish_event", "read_blackboard", "save_artifact", "subscribe", "write_blackboard"),
)
"""Tools that use what the host keeps; they exist where there is a host."""
HUB_TOOL_NAMES = ("delegate", "peers", "say", "sessions")
"""Tools that use the hub of the host; they exist where the agent has joined it."""
RESERVED_TOOL_NAMES = frozenset(
    (*LOCKED_TOOL_NAMES, *TOOL_ALIASES, *OTHER_TOOL_NAMES, *MESH_TOOL_NAMES, *HUB_TOOL_NAMES)
)
"""Names that no skill and no server may use."""


def with_aliases(specs: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return the tools with their aliases, for callers."""
    further = [replace(spec, name=alias) for alias, name in TOOL_ALIASES.items() for spec in specs if spec.name == name]
    return [*specs, *further]


@dataclass(frozen=True, slots=True)
class Output:
    """Returned by `run` instead of plain data to add information to it."""

    data: Any
    truncated: bool = False
    output_path: str | None = None
    """Path of the whole output, for the `read` tool."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further facts about the data."""
    already_bounded: bool = False
    """Set if the tool has limited its text itself, so that the gate does not cut it again."""
    added_tools: tuple[str, ...] = ()
    """Names of tools that join the turn at its next step."""


class NeedsHuman(Exception):
    """Raised by a tool or the gate if the call can continue only after a person has answered."""

    def __init__(self, request: HumanRequest) -> None:
        super().__init__(request.kind)
        self.request = request


WORKSPACE_AND_SCRATCH = ["{workspace}", "{ad-hoc}"]
READ_REQUIREMENTS = RequirementSet(fs=Folders(read=WORKSPACE_AND_SCRATCH))
WRITE_REQUIREMENTS = RequirementSet(fs=Folders(read=WORKSPACE_AND_SCRATCH, write=WORKSPACE_AND_SCRATCH))


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """The access of one call, as far as its arguments tell."""

    subjects: tuple[str, ...] = ("",)
    """Texts that the patterns of permission rules are matched against: paths, commands, hosts."""
    aliases: tuple[tuple[str, ...], ...] = ()
    """Other names of each subject, under which a rule may deny it too."""
    starts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Subject -> its certain beginning: an allow rule must match whatever follows it."""
    opaque: str = ""
    """Why the call may access more than can be determined; then only a rule for everything allows it. Empty: it
    cannot."""
    anything: bool = False
    """For an opaque call: nothing can be determined, so every rule that does not allow applies."""
    requires: RequirementSet | None = None
    """The requirements of this call, if less than the tool's; None: the tool's."""
    asks: str = ""
    """Why a person is asked although a rule for more than these subjects allows the call. Empty: no such reason."""
    suggested_patterns: tuple[str, ...] = ()
    """Patterns for rules that would allow such calls permanently; empty: the subjects themselves."""


RunTool = Callable[[Mapping[str, Any], ToolContext], Awaitable[Any]]
"""Runs a tool with valid arguments and the caller's context; returns JSON data or an Output. Raises ToolFailure with a
text for the model, and NeedsHuman if a person must answer first."""


WithdrawCall = Callable[[Mapping[str, Any], ToolContext], Awaitable[None]]
"""Ends elsewhere what a call of an earlier process has begun there. Its recorded arguments may be invalid. Raises
nothing."""


AdaptArguments = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns the arguments of a call, before they are checked, in the form that the schema wants. Raises
ToolFailure."""


DescribeAccess = Callable[[Mapping[str, Any], ToolContext], Awaitable[AccessRequest]]
"""Describes the access of a call with these arguments. Raises ToolFailure."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A capability with a schema. Only the gate calls `run`."""

    spec: ToolSpec
    run: RunTool
    requires: RequirementSet = field(default_factory=RequirementSet)
    """Upper limit of its access. It requests authority by this but never gains any."""
    timeout: float | None = None
    """Deadline in seconds; None: the gate's default."""
    timeout_setting: str = ""
    """Where an operator changes the deadline, for the error when it has passed."""
    withdraw: WithdrawCall | None = None
    """None: an interrupted call leaves nothing behind that would have to end with its turn."""
    describe_access: DescribeAccess | None = None
    """None: every call may access all that the tool requires."""
    adapt: AdaptArguments | None = None
    """None: arguments of another form than the schema's are converted only as those of all tools are."""
    build: str = ""
    """Names the code that a call runs, if that can be replaced: who approves a call approves this code."""
    rule_names: tuple[str, ...] = ()
    """Further names for rules and manifests besides the id, such as `mcp:SERVER:TOOL`."""
    result_doc: str = ""
    """Fields of the result's data, for the reference page of tools."""
    limits_doc: str = ""
    """Limits, for the reference page of tools; built from the constants in force."""


class ToolProvider(Protocol):
    """A source of tools that may come and go."""

    async def ready(self, authority: Authority) -> None:
        """Prepare for a turn with this authority. Returns within a short time and never raises."""
        ...

    def tools(self) -> Sequence[Tool]:
        """Return the tools that can be called now."""
        ...

    def states(self) -> Sequence[SkillState]:
        """Return all tools found, including unusable ones with the reason."""
        ...
