"""Permission rules and requirement sets (docs/reference/permissions.md)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from .base import Inbound, Peer

Action = Literal["allow", "ask", "deny"]
Scope = Literal["manifest", "project", "agent", "session"]
ApprovalScope = Literal["session", "agent"]
"""For what `always` holds: the session that asked, or all of the user's sessions with the agent that asked."""
MAX_RULES = 200
MAX_PATTERN_STARS = 20
"""Most `*` in a pattern of a person's rule: each piece between them is prepared, and the preparation kept."""
HOSTS = frozenset({"web_fetch", "net.fetch", "shell.net"})
"""Permissions whose patterns are about hosts."""


def _ascii(label: str) -> str:
    """Return the label in ASCII, as `net` spells hosts. An invalid label is returned unchanged and matches no host."""
    if label.isascii():
        return label
    import idna

    try:
        return idna.encode(label, uts46=True).decode()
    except UnicodeError:  # includes idna's own error
        return label


class NewRule(Inbound):
    """A rule as it is written in a request or a file."""

    permission: str = Field(min_length=1, max_length=200)
    """A tool's id, a capability such as `fs.write`, `skill:NAME`, `mcp:SERVER:TOOL`, or a pattern of these."""
    pattern: str = Field(default="*", min_length=1, max_length=1000)
    """Pattern for what the call touches: a path, a command, a host, an agent. `*` is any text, `?` one character."""
    action: Action

    @field_validator("pattern")
    @classmethod
    def _as_hosts_are_compared(cls, value: str, info: ValidationInfo) -> str:
        """Convert a host pattern to the spelling of calls: `Bücher.example.` becomes `xn--bcher-kva.example`."""
        if info.data.get("permission") not in HOSTS or "/" in value:
            return value
        labels = (_ascii(label) for label in value.lower().rstrip(".").split("."))
        return ".".join(labels)


class Rule(NewRule):
    """A stored rule."""

    source: Scope = "session"
    added_at: int | None = None
    """Epoch milliseconds."""


class _PersonRule(NewRule):
    """A rule as a person may write it."""

    @field_validator("pattern")
    @classmethod
    def _has_few_stars(cls, value: str) -> str:
        if value.count("*") > MAX_PATTERN_STARS:
            raise ValueError(f"has at most {MAX_PATTERN_STARS} stars")
        return value


class SessionRule(_PersonRule):
    """A rule of a session, either new or returned by an earlier request."""

    source: Literal["session"] = "session"
    added_at: int | None = Field(default=None, ge=0)
    """Epoch milliseconds; null means now."""


class AgentRule(_PersonRule):
    """A rule of a user for all their sessions with an agent, either new or returned by an earlier request."""

    source: Literal["agent"] = "agent"
    added_at: int | None = Field(default=None, ge=0)
    """Epoch milliseconds; null means now."""


def stored_rule(rule: SessionRule | AgentRule, now: int) -> Rule:
    """Return a rule as it is stored: a new one with its time."""
    at = now if rule.added_at is None else rule.added_at
    return Rule(permission=rule.permission, pattern=rule.pattern, action=rule.action, source=rule.source, added_at=at)


class ArgPattern(Inbound):
    """A pattern for an argument of a program: any argument, or those with a prefix. A plain string matches itself."""

    wildcard: Literal[True] | None = None
    """Matches any number of arguments from here on."""
    prefix: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> ArgPattern:
        if (self.wildcard is None) == (self.prefix is None):
            raise ValueError("give exactly one of wildcard and prefix")
        return self


class Program(Inbound):
    """A program and the arguments it may have."""

    cmd: str | ArgPattern
    args: list[str | ArgPattern] = Field(default_factory=list[str | ArgPattern])


ANY_PROGRAM = Program(cmd=ArgPattern(wildcard=True), args=[ArgPattern(wildcard=True)])


class Folders(Inbound):
    """Folders. `{workspace}`, `{ad-hoc}` (the session's scratch) and `{user-data}` are replaced for each call."""

    read: list[str] = Field(default_factory=list[str])
    write: list[str] = Field(default_factory=list[str])


class Net(Inbound):
    """Hosts: names, `*.domain`, or `*` for all public ones."""

    hosts: list[str] = Field(default_factory=list[str])


class RequirementSet(Inbound):
    """What a tool touches, or the most that an agent may touch."""

    fs: Folders = Field(default_factory=Folders)
    net: Net = Field(default_factory=Net)
    shell: list[Program] = Field(default_factory=list[Program])
    capabilities: list[str] = Field(default_factory=list[str])


class PermissionsUpdate(Inbound):
    """All rules of a session; they replace the existing ones."""

    rules: list[SessionRule] = Field(max_length=MAX_RULES)


class AgentPermissionsUpdate(Inbound):
    """All rules of a user for an agent; they replace the existing ones."""

    rules: list[AgentRule] = Field(max_length=MAX_RULES)


class Permissions(Peer):
    """The rules of a session by scope. The most specific rule of each scope holds, and a deny of any scope wins."""

    session_id: str
    agent: str
    rules: list[Rule]
    """Rules of the session: set here, or added by answering an approval with `always`."""
    agent_rules: list[Rule] = Field(default_factory=list[Rule])
    """Rules of the session's user for all their sessions with the agent."""
    project: list[Rule] = Field(default_factory=list[Rule])
    """The operator's rules for all sessions."""
    manifest: list[Rule] = Field(default_factory=list[Rule])
    """The agent's rules."""


class AgentPermissions(Peer):
    """The rules of a user for all their sessions with an agent, beside the operator's and the agent's own."""

    agent: str
    user: str
    rules: list[Rule]
    """Rules of the user: set here, or added by answering an approval with `always` and the scope `agent`."""
    project: list[Rule] = Field(default_factory=list[Rule])
    """The operator's rules for all sessions."""
    manifest: list[Rule] = Field(default_factory=list[Rule])
    """The agent's rules."""


class AgentPermissionsList(Peer):
    """The agents for which a user has rules, by name."""

    permissions: list[AgentPermissions]


class AgentPermissionsQuery(Inbound):
    """Which rules of a user to list."""

    agent: str | None = Field(default=None, min_length=1, max_length=200)
    """Only those for this agent."""


class AgentCard(Peer):
    """An agent, and whether it can be chosen or why not."""

    name: str
    description: str = ""
    mode: Literal["primary", "subagent", "all", "internal"] = "all"
    source: Literal["builtin", "file"] = "builtin"
    error: str | None = None


class ToolContract(Peer):
    """Properties of a tool besides its schema."""

    requires: dict[str, Any]
    read_only: bool
    idempotent: bool
    timeout_seconds: float
