"""What a tool is, to those who write one and to the gate that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..ports import HumanWait, ToolContext, ToolSpec
from ..protocol import SkillState

LOCKED = (
    *("bash", "edit", "glob", "grep", "question", "read", "skill"),
    *("task", "todo", "tool_search", "web_fetch", "web_search", "write"),
)
"""The ids that belong to the product, also where a tool is not there yet."""


@dataclass(frozen=True, slots=True)
class Output:
    """What `run` returns in place of plain data when there is something to say about it."""

    data: Any
    truncated: bool = False
    output_path: str | None = None
    """Where the whole is, for the `read` tool."""
    sized: bool = False
    """The tool has bounded the text in its data itself; the gate does not cut it again."""


class NeedsHuman(Exception):
    """Raised by a tool or the gate: the call can only go on once a person has answered."""

    def __init__(self, wait: HumanWait) -> None:
        super().__init__(wait.kind)
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a tool touches. It asks for authority with this, it never gains any by it."""

    read: tuple[str, ...] = ()
    """Folders; `{workspace}` and `{scratch}` stand for those of the call."""
    write: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    shell: tuple[str, ...] = ()
    """Programs; `*` is any."""
    capabilities: tuple[str, ...] = ()


Run = Callable[[Mapping[str, Any], ToolContext], Awaitable[Any]]
"""From arguments that fit the schema, and who calls, to JSON data or an Output. Raises ToolFailure for the model, and
NeedsHuman where a person must answer first."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A capability with a schema. The gate runs it; nothing else calls `run`."""

    spec: ToolSpec
    run: Run
    requires: Requirements = field(default_factory=Requirements)
    timeout: float | None = None
    """Seconds; none: the default of the gate."""


class ToolProvider(Protocol):
    """A source of tools that come and go: skills now, MCP servers later."""

    def tools(self) -> Sequence[Tool]:
        """Those that can be called now."""
        ...

    def states(self) -> Sequence[SkillState]:
        """All that were found, also those that cannot be called, with the reason."""
        ...
