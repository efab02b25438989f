"""AgentStatus and Capabilities: the answers of `GET /status` and `GET /capabilities`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ..base import Peer
from ..permission import AgentCard, ToolContract

AgentState = Literal["starting", "idle", "working", "blocked", "draining", "failed"]
ToolSource = Literal["builtin", "custom", "hub", "mcp", "mesh"]


class SessionCounts(Peer):
    running: int = 0
    queued: int = 0
    waiting: int = 0


class EffectiveLimits(Peer):
    """The limits in force."""

    max_iterations: int
    max_rounds: int
    max_concurrent_turns: int
    max_queue: int
    tool_timeout_seconds: float
    context_limit: int
    """The same as `context_max`."""


class ModelFallback(Peer):
    """A model that answered in place of another."""

    model: str
    """Its name in the host's catalog."""
    reason: str
    """Why the other could not answer."""


class AgentStatus(Peer):
    """The agent's current activity, read from memory."""

    agent_id: str
    role: str
    state: AgentState
    current_task: str | None = None
    current_tasks: list[str] = Field(default_factory=list)
    capabilities: list[str] = Field(default_factory=list)
    uptime_seconds: float
    tasks_completed: int = 0
    tasks_failed: int = 0
    model: str = ""
    """The model of the turn that started last, or the agent's own model before the first."""
    fallback: ModelFallback | None = None
    """The model that answered that turn's latest call in its place; null if it answered itself."""
    context_tokens: int = 0
    """Tokens in the window at the latest model call of that turn's session."""
    context_max: int
    """Size of that model's window in tokens."""
    context_pct: float = 0.0
    last_iteration_ts: int | None = None
    """Epoch milliseconds of the last completed step."""
    iterations_since_boot: int = 0
    retrying: str | None = None
    """Why a model call is being retried; null if none is."""
    sessions: SessionCounts = Field(default_factory=SessionCounts)
    queue_limit: int
    channel: str = "off"
    mesh: str = "unknown"
    """`reachable`, `unreachable`, `refused` (it does not accept the token) or `unknown`."""
    cold_models: list[str] = Field(default_factory=list[str])
    """Models whose provider should have served the last prompts from its cache and did not, so they cost more."""
    cache_hit_rates: dict[str, float] = Field(default_factory=dict[str, float])
    """By model: the share of its prompts that its provider read from its cache, since the agent's start."""
    confinement: str = "unknown"
    """How commands and skills are confined: `bubblewrap`, `uid`, `landlock`, `none` or `off`."""
    confinement_fault: str | None = None
    """Why they cannot be confined, so that none are run, and what would help; null if they can."""
    limits: EffectiveLimits
    version: str = ""


class SkillState(Peer):
    """One `@skill` plugin, and whether it can be called."""

    name: str
    file: str
    version: int = 1
    state: Literal["active", "failed", "disabled"]
    error: str | None = None


class McpServerState(Peer):
    """One configured MCP server, and its state."""

    name: str
    kind: Literal["local", "remote"]
    state: Literal["idle", "connecting", "ready", "waiting", "closed", "disabled"]
    """`idle`: not needed now; `waiting`: it failed and is retried after a pause."""
    tools: list[str] = Field(default_factory=list[str])
    """The tools that it listed last."""
    error: str | None = None
    """Why it is not connected, or null."""
    faults: list[str] = Field(default_factory=list[str])
    """What is wrong with its list of tools: those that are left out, by name, and how many."""


class PackageFault(Peer):
    """What is wrong with a folder among the skill packages."""

    path: str
    loaded: bool
    """Whether the package can be used all the same."""
    reason: str
    """The fault, with what to do."""


class Capabilities(Peer):
    """The agent's card: its tools, skills, servers and limits."""

    agent_id: str
    role: str
    tools: list[str]
    tool_definitions: list[dict[str, Any]]
    """Tools in OpenAI's function format."""
    tool_sources: dict[str, ToolSource]
    skills: list[SkillState] = Field(default_factory=list[SkillState])
    mcp_servers: list[McpServerState] = Field(default_factory=list[McpServerState])
    tool_contracts: dict[str, ToolContract] = Field(default_factory=dict[str, ToolContract])
    """For each tool: what it requires, whether it may be repeated, and its time limit."""
    agents: list[AgentCard] = Field(default_factory=list[AgentCard])
    packages: list[dict[str, str]] = Field(default_factory=list[dict[str, str]])
    """Skill packages: `name`, `description`, `warning` if it is not called as it says, and `invocation`: `person` if
    only a person may name it."""
    package_faults: list[PackageFault] = Field(default_factory=list[PackageFault])
    models: list[str] = Field(default_factory=list[str])
    protocols: dict[str, str] = Field(default_factory=dict)
