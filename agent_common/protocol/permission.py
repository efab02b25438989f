"""Permission rules and requirement sets: how authority is written down (docs/reference/permissions.md)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from .base import Inbound, Peer

Action = Literal["allow", "ask", "deny"]
Scope = Literal["manifest", "project", "session"]
MAX_RULES = 200
HOSTS = frozenset({"web_fetch", "net.fetch", "shell.net"})
"""Permissions whose patterns are about hosts."""


def _ascii(label: str) -> str:
    """As `net` writes hosts; what is no label stays as it is, and fits no host."""
    if label.isascii():
        return label
    import idna

    try:
        return idna.encode(label, uts46=True).decode()
    except UnicodeError:  # idna's own error is one
        return label


class NewRule(Inbound):
    """A rule as somebody writes it."""

    permission: str = Field(min_length=1, max_length=200)
    """A tool's id, a capability such as `fs.write`, `skill:NAME`, `mcp:SERVER:TOOL`, or a pattern of these."""
    pattern: str = Field(default="*", min_length=1, max_length=1000)
    """What the call touches: a path, a command, a host, an agent. `*` is any text, `?` one character."""
    action: Action

    @field_validator("pattern")
    @classmethod
    def _as_hosts_are_compared(cls, value: str, info: ValidationInfo) -> str:
        """`Bücher.example.` never is the name of a host, as far as calls go; `xn--bcher-kva.example` is."""
        if info.data.get("permission") not in HOSTS or "/" in value:
            return value
        labels = (_ascii(label) for label in value.lower().rstrip(".").split("."))
        return ".".join(labels)


class Rule(NewRule):
    """A rule where it is kept."""

    source: Scope = "session"
    added_at: int | None = None
    """Epoch milliseconds."""


class SessionRule(NewRule):
    """A rule of a session, new or as it was read."""

    source: Literal["session"] = "session"
    added_at: int | None = Field(default=None, ge=0)
    """Epoch milliseconds; none: now."""

    def to_rule(self, now: int) -> Rule:
        at = now if self.added_at is None else self.added_at
        return Rule(permission=self.permission, pattern=self.pattern, action=self.action, added_at=at)


class ArgPattern(Inbound):
    """One argument of a program: any one, or those that begin so. A plain string stands for itself."""

    wildcard: Literal[True] | None = None
    """Any arguments from here on."""
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
    """Folders; `{workspace}`, `{ad-hoc}` (the session's scratch) and `{user-data}` stand for those of the call."""

    read: list[str] = Field(default_factory=list[str])
    write: list[str] = Field(default_factory=list[str])


class Net(Inbound):
    """Hosts: names, `*.domain`, or `*` for all public ones."""

    hosts: list[str] = Field(default_factory=list[str])


class RequirementSet(Inbound):
    """What a tool touches, or what an agent may touch at most."""

    fs: Folders = Field(default_factory=Folders)
    net: Net = Field(default_factory=Net)
    shell: list[Program] = Field(default_factory=list[Program])
    capabilities: list[str] = Field(default_factory=list[str])


class PermissionsUpdate(Inbound):
    """The rules of a session, all of them; what was there before goes."""

    rules: list[SessionRule] = Field(max_length=MAX_RULES)


class Permissions(Peer):
    """What the agent may do in a session: the most specific rule of each scope holds, and a deny of any scope wins."""

    session_id: str
    agent: str
    rules: list[Rule]
    """Of the session: set here, or added by answering an approval with `always`."""
    project: list[Rule] = Field(default_factory=list[Rule])
    """Of the operator, for all sessions."""
    manifest: list[Rule] = Field(default_factory=list[Rule])
    """Of the agent."""


class AgentCard(Peer):
    """An agent that can be chosen, or the reason why it cannot."""

    name: str
    description: str = ""
    mode: Literal["primary", "subagent", "all", "internal"] = "all"
    source: Literal["builtin", "file"] = "builtin"
    error: str | None = None


class ToolContract(Peer):
    """What the runtime knows of a tool beside its schema."""

    requires: dict[str, Any]
    read_only: bool
    idempotent: bool
    timeout_seconds: float
