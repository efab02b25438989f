"""Tools, and those who run agents and load packages for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from agent_common.protocol import NewRule, SkillState, ToolContract, ToolSource
from agent_common.protocol.authority import Authority

from .model import ModelMeter


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the model and the caller are told about a tool."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments object."""
    source: ToolSource = "builtin"
    read_only: bool = False
    """It changes nothing (MCP's hint): an orphaned call may run again."""
    idempotent: bool = False
    """Running it twice with the same arguments is as running it once (MCP's hint)."""


class DeferredTools(Protocol):
    """The tools that a model may call and that do not stand in its list."""

    def has_any(self) -> bool: ...

    def search(self, query: str, limit: int) -> Sequence[tuple[str, str]]:
        """Names and descriptions of those that fit the words, the best first. Takes time in proportion to all."""
        ...


class EgressMeter(Protocol):
    """Counts what a tool sends out of the workspace."""

    @property
    def limited(self) -> bool:
        """There is a bound: what cannot be counted may not go out."""
        ...

    def count_sent(self, count: int) -> None:
        """Counts bytes before they leave. Raises ToolFailure when that would be more than may."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who calls a tool, and where."""

    session_id: str
    call_id: str
    """Also the idempotency key of the call."""
    workspace: Path
    scratch: Path
    """The session's own folder for spilled output."""
    message_id: str = ""
    """The user message whose turn makes the call."""
    principal: str = "operator"
    agent: str = "default"
    authority: Authority = field(default_factory=Authority)
    """What the agent may do."""
    interactive: bool = False
    """A person is there to be asked."""
    approved: bool = False
    """A person has allowed this very call."""
    approved_for: tuple[str, ...] | None = None
    """What the call touched when that person was asked; none: not on record."""
    skills: Path | None = None
    """The folder of plugins, of whose files the runtime keeps copies in the workspace."""
    deferred_tools: DeferredTools | None = None
    """Where to look for tools that are not in the list."""
    egress: EgressMeter | None = None
    """None: nothing counts what is sent out."""
    model_meter: ModelMeter | None = None
    """None: nothing counts what the tool asks of models."""
    spawner: Spawner | None = None
    """Runs the agents that the call asks for; None: no agent can be called."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Skill packages that the agent was told of when it entered the session: name -> where it was found."""

    def is_approved_for(self, touches: tuple[str, ...] | None) -> bool:
        """Whether a person has allowed this call, for what it touches: a link may lead elsewhere by now."""
        return self.approved and self.approved_for in (None, touches)

    @property
    def variables(self) -> dict[str, str]:
        """Return the folders that the variables of requirement sets stand for.

        See docs/reference/permissions.md#grants.
        """
        return {"workspace": str(self.workspace), "ad-hoc": str(self.scratch)}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The uniform envelope: `output` with data or `error` with a text, always with its duration."""

    type: Literal["output", "error"]
    data: Any = None
    error_text: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    added_tools: tuple[str, ...] = ()
    """Tools that the call has brought in: they join the turn at its next step."""

    def envelope(self) -> dict[str, Any]:
        body = {"data": self.data} if self.type == "output" else {"error_text": self.error_text}
        return {"type": self.type, **body, "metadata": self.metadata}


@dataclass(frozen=True, slots=True)
class HumanRequest:
    """The call cannot go on without a person: it asks a question, or it needs somebody's approval."""

    kind: Literal["question", "approval"]
    reason: str = ""
    always: tuple[NewRule, ...] = ()
    """The rules that an approval for good would add."""
    touches: tuple[str, ...] | None = None
    """What the call touches now: an approval is for that."""


@dataclass(frozen=True, slots=True)
class SubagentRequest:
    """Work that one agent hands to another."""

    agent: str
    prompt: str
    background: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Spawner(Protocol):
    """Runs subagents."""

    async def spawn(self, request: SubagentRequest, context: ToolContext) -> Any:
        """Run an agent and return the data of the call's result. Raises ToolFailure. Cancelling the caller stops the
        agent. An agent in the background outlives the turn that called it, unless that turn is aborted."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill package as a session has it."""

    body: str
    """The instructions."""
    file: str = ""
    """Where in the workspace they are; empty: elsewhere."""
    folder: str = ""
    """Where its files can be read; empty: it has none."""
    files: tuple[str, ...] = ()
    """Paths below that folder."""
    omitted_files: int = 0
    """Files that are not among these."""
    note: str = ""
    """What went wrong with the files."""


class SkillIndex(Protocol):
    """Skill packages: instructions that a model loads by name when a task fits them."""

    def list_packages(self) -> Sequence[tuple[str, str]]:
        """Name and description of each that is there now. Looks at files."""
        ...

    async def load(self, name: str, context: ToolContext) -> LoadedSkill:
        """One of the packages of the context. Raises ToolFailure when it cannot be read any more."""
        ...


class Toolset(Protocol):
    """The tools of one step: a snapshot that does not change under it."""

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """Those that the model sees, in its order; where there are many, others can be called too."""
        ...

    async def prepare(self) -> None:
        """Loads what is slow to load, so that calls which begin one after the other get to work in that order."""
        ...

    def spec(self, name: str) -> ToolSpec | None:
        """The tool that a call of this name reaches: there are names that are not shown."""
        ...

    async def run(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult | HumanRequest:
        """Runs one call to its end, or to the point where only a person can help. Never raises except for
        cancellation."""
        ...

    def with_tools(self, names: Sequence[str], authority: Authority | None = None) -> Toolset:
        """This one, with the tools of these names as they are now, as far as the authority offers them: in the place
        of the ones before them, else at the end."""
        ...


class ToolCatalog(Protocol):
    """All tools there are now."""

    async def ready(self, authority: Authority) -> None:
        """Connects what a turn with this authority may use, or gives it up soon."""
        ...

    def snapshot(self, order: Sequence[str] = (), authority: Authority | None = None) -> Toolset:
        """The tools as they are now, as far as the authority offers them: those named in `order` first and in that
        order, new ones sorted behind."""
        ...

    def all_specs(self) -> Sequence[ToolSpec]:
        """All of them, also those that a model has to search for."""
        ...

    def contracts(self) -> Mapping[str, ToolContract]:
        """What is known of each tool beside its schema."""
        ...

    def skills(self) -> Sequence[SkillState]: ...
