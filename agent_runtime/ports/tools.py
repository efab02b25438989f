"""Interfaces for tools, subagents and skill packages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from agent_common.protocol import NewRule, PackageFault, SkillState, ToolContract, ToolSource
from agent_common.protocol.authority import Authority

from .model import ModelMeter


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The description of a tool for the model and for callers."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments object."""
    source: ToolSource = "builtin"
    read_only: bool = False
    """It changes nothing (MCP's hint), so an interrupted call may be repeated."""
    idempotent: bool = False
    """Calling it twice with the same arguments has the effect of calling it once (MCP's hint)."""
    details: str = ""
    """What its server says of it, if that is longer than the description; `tool_search` shows it, and a list without
    that."""
    server: str = ""
    """The MCP server that has it."""
    server_instructions: str = ""
    """What that server says about the use of its tools; `tool_search` shows it."""


class DeferredTools(Protocol):
    """The tools of which a model's list does not show all: nothing, or only the beginning of what their server says."""

    def has_any(self) -> bool: ...

    def search(self, query: str, limit: int) -> Sequence[ToolSpec]:
        """Return the matching tools, the best first. Takes time proportional to all tools."""
        ...

    def named_in_list(self, query: str) -> Sequence[str]:
        """Return the names of which the query is made, if the model's list shows all these tools; else nothing."""
        ...

    def search_list(self, query: str, limit: int) -> Sequence[str]:
        """Return the names of matching tools in the model's list, the best first."""
        ...

    def is_hidden(self, name: str) -> bool:
        """Whether the model's list does not show the tool at all, although the model may call it."""
        ...


class Progress:
    """The latest sign of progress of a call, which extends its deadline up to a maximum."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: float | None = None
        """By the monotonic clock."""

    def note(self) -> None:
        self.at = time.monotonic()


class EgressMeter(Protocol):
    """Counts the bytes that a tool sends out of the workspace."""

    sent_bytes: int

    @property
    def limited(self) -> bool:
        """Whether there is a limit, so that nothing uncounted may be sent."""
        ...

    def count_sent(self, count: int) -> None:
        """Count bytes before they are sent. Raises ToolFailure if that would exceed the limit."""
        ...


@dataclass(slots=True)
class OutsideText:
    """Whether a conversation holds text that may come from anybody: of the web, of an MCP server, of a skill, or of
    whatever a command has reached over the network. It stays true for the rest of the conversation."""

    seen: bool = False


OUTSIDE_TEXT_KEY = "outside_text"
"""Metadata key of a result with such text whose tool does not tell: what is stored shows it to a later process."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The caller of a tool, and its folders and limits."""

    session_id: str
    call_id: str
    """Id of the call, also used as its idempotency key."""
    workspace: Path
    scratch: Path
    """The session's own folder for temporary files."""
    message_id: str = ""
    """The user message of the calling turn."""
    task_id: str = ""
    """The task that the turn carries out; empty: none."""
    principal: str = "operator"
    agent: str = "default"
    authority: Authority = field(default_factory=Authority)
    """The authority of the turn."""
    interactive: bool = False
    """Whether a person is there to be asked."""
    may_subscribe: bool = False
    """Whether messages of topics may become turns of the session: it is a conversation that goes on, and no task or
    subagent, whose authority ends with it."""
    approved: bool = False
    """Whether a person has approved this call."""
    approved_for: tuple[str, ...] | None = None
    """The resources that the call touched when the person was asked; None: not recorded."""
    skills: Path | None = None
    """The folder of plugins, whose versions are copied into the workspace."""
    deferred_tools: DeferredTools | None = None
    """The tools that are not in the model's list."""
    egress: EgressMeter | None = None
    """None: sent bytes are not counted."""
    model_meter: ModelMeter | None = None
    """None: nothing counts what the tool asks of models."""
    spawner: Spawner | None = None
    """Runs the agents that the call asks for; None: no agent can be called."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Skill packages listed in the agent's prompt: name -> where it was found."""

    was_aborted: Callable[[], bool] = _never
    """Asks, once the call is cancelled, whether its turn was stopped for good, so that work elsewhere must stop too.
    Otherwise the runtime stops, and the next process may make the same call again."""
    progress: Progress = field(default_factory=Progress)
    outside_text: OutsideText = field(default_factory=OutsideText)

    def is_approved_for(self, touches: tuple[str, ...] | None) -> bool:
        """Return whether a person approved this call for the same resources: a link may lead elsewhere by now."""
        return self.approved and self.approved_for in (None, touches)

    @property
    def variables(self) -> dict[str, str]:
        """Values of the variables in requirement sets (docs/reference/permissions.md#grants)."""
        return {"workspace": str(self.workspace), "ad-hoc": str(self.scratch)}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The uniform result of a call: `output` with data or `error` with a text; metadata has the duration."""

    type: Literal["output", "error"]
    data: Any = None
    error_text: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    added_tools: tuple[str, ...] = ()
    """Tools that the call has added: they join the turn at its next step."""

    def envelope(self) -> dict[str, Any]:
        body = {"data": self.data} if self.type == "output" else {"error_text": self.error_text}
        return {"type": self.type, **body, "metadata": self.metadata}


@dataclass(frozen=True, slots=True)
class HumanRequest:
    """A call that needs a person to continue, to answer a question or to approve it."""

    kind: Literal["question", "approval"]
    reason: str = ""
    always: tuple[NewRule, ...] = ()
    """The rules that the decision `always` would add."""
    touches: tuple[str, ...] | None = None
    """The resources that the call touches now; an approval is valid for these."""


@dataclass(frozen=True, slots=True)
class SubagentRequest:
    """A task from one agent to another."""

    agent: str
    prompt: str
    background: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Spawner(Protocol):
    """Runs subagents."""

    async def spawn(self, request: SubagentRequest, context: ToolContext) -> Any:
        """Run an agent and return the data of the call's result. Raises ToolFailure. Cancelling the caller stops the
        agent. An agent in the background may outlast the turn that called it, but stops if that turn is aborted."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill package as loaded into a session."""

    body: str
    """The instructions."""
    file: str = ""
    """Path of the instructions in the workspace; empty if they are elsewhere."""
    folder: str = ""
    """Folder in which its files can be read; empty if it has none."""
    files: tuple[str, ...] = ()
    """Paths below that folder."""
    omitted_files: int = 0
    """Number of files that `files` leaves out."""
    note: str = ""
    """Why some files are missing; empty if none are."""


@dataclass(frozen=True, slots=True)
class PackageCatalog:
    """The skill packages that there are, as `GET /capabilities` shows them."""

    packages: Sequence[dict[str, str]] = ()
    faults: Sequence[PackageFault] = ()


class SkillIndex(Protocol):
    """Skill packages: instructions that a model loads by name for a task."""

    def catalog(self) -> PackageCatalog:
        """Return all packages that there are now, and what is wrong with others."""
        ...

    def list_packages(self) -> Sequence[tuple[str, str]]:
        """Return name and description of the present packages. Reads files."""
        ...

    async def load(self, name: str, context: ToolContext) -> LoadedSkill:
        """Load one of the context's packages. Raises ToolFailure if it can no longer be read."""
        ...


class Toolset(Protocol):
    """The tools of one step, as an unchanging snapshot."""

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The tools that the model sees, in its order. If there are many, others can be called too."""
        ...

    async def prepare(self) -> None:
        """Load slow dependencies first, so that calls which start one after another also run in that order."""
        ...

    def spec(self, name: str) -> ToolSpec | None:
        """Return the tool that a call of this name reaches, including tools that are not shown."""
        ...

    async def run(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult | HumanRequest:
        """Run one call to its end, or until it needs a person. Raises nothing but a cancellation."""
        ...

    async def withdraw(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> None:
        """End elsewhere what a call of an earlier process has begun there, in place of making it again: its turn is
        stopped. No effect for a tool that begins nothing. Raises nothing but a cancellation."""
        ...

    def with_tools(self, names: Sequence[str], authority: Authority | None = None) -> Toolset:
        """Return a copy with the named tools in their current version. Known ones are replaced in place, new ones
        appended. Tools that the authority does not offer are skipped."""
        ...


class ToolCatalog(Protocol):
    """The tools that exist now."""

    async def ready(self, authority: Authority) -> None:
        """Connect the servers that a turn with this authority may use; give up after a short time."""
        ...

    def snapshot(self, order: Sequence[str] = (), authority: Authority | None = None) -> Toolset:
        """Return the present tools that the authority offers: those in `order` first, in that order, then new ones,
        sorted."""
        ...

    def all_specs(self) -> Sequence[ToolSpec]:
        """Return all tools, including those that a model must search for."""
        ...

    def contracts(self) -> Mapping[str, ToolContract]:
        """Return the contract of each tool, which has more than its schema."""
        ...

    def skills(self) -> Sequence[SkillState]: ...
