"""The seams of the runtime, as Protocols. A room that needs something above its floor asks for one of these."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from .protocol import ModelCard, SkillState, ToolSource, Usage

# ---------------------------------------------------------------- time


class Clock(Protocol):
    """Wall clock for stamps, monotonic clock for durations."""

    def now_ms(self) -> int:
        """Epoch milliseconds, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary point; never goes back."""
        ...


# ---------------------------------------------------------------- model


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call. Messages and tools come serialised, so that a long history is never walked again."""

    model: str
    messages: Sequence[bytes]
    """Each one a chat-completions message as JSON."""
    tools: bytes | None = None
    """The JSON array of tool definitions, or none."""
    tool_choice: Literal["auto", "none"] = "auto"
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Retrying:
    """The call failed before its first token and will be made again."""

    attempt: int
    message: str
    delay: float


@dataclass(frozen=True, slots=True)
class TextPiece:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallPiece:
    id: str
    text: str
    """The next piece of the arguments' JSON."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model asked for it. `arguments` is raw text and may be broken JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Completion:
    """The end of a model call."""

    stop_reason: Literal["stop", "length", "content-filter", "tool-calls", "other"]
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str | None = None


ModelEvent = Retrying | TextPiece | ReasoningPiece | CallStarted | CallPiece | Completion


class Model(Protocol):
    """A language model behind the mesh."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The call's events; the last one is the Completion. Raises ModelError."""
        ...


class Mesh(Protocol):
    """What the host offers besides streaming completions. Raises MeshUnavailable."""

    async def models(self) -> Sequence[ModelCard]: ...

    async def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]: ...

    async def embed(self, texts: Sequence[str], *, model: str | None = None) -> list[list[float]]: ...


# ---------------------------------------------------------------- tools


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


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who calls a tool, and where."""

    session_id: str
    call_id: str
    """Also the idempotency key of the call."""
    workspace: Path
    scratch: Path
    """The session's own folder for spilled output."""
    principal: str = "operator"
    interactive: bool = False
    """A person is there to be asked."""
    approved: bool = False
    """A person has allowed this very call, or every call of its tool in this session."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The uniform envelope: `output` with data or `error` with a text, always with its duration."""

    type: Literal["output", "error"]
    data: Any = None
    error_text: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    def envelope(self) -> dict[str, Any]:
        body = {"data": self.data} if self.type == "output" else {"error_text": self.error_text}
        return {"type": self.type, **body, "metadata": self.metadata}


@dataclass(frozen=True, slots=True)
class HumanWait:
    """The call cannot go on without a person: it asks a question, or it needs somebody's approval."""

    kind: Literal["question", "approval"]
    reason: str = ""


class Toolset(Protocol):
    """The tools of one turn: a snapshot that does not change under it."""

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """In the order in which the model sees them."""
        ...

    async def run(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult | HumanWait:
        """Runs one call to its end, or to the point where only a person can help. Never raises except for
        cancellation."""
        ...


class ToolCatalog(Protocol):
    """All tools there are now."""

    def snapshot(self, order: Sequence[str] = ()) -> Toolset:
        """The tools as they are now: those named in `order` first and in that order, new ones sorted behind."""
        ...

    def skills(self) -> Sequence[SkillState]: ...


# ---------------------------------------------------------------- watchers


class Events(Protocol):
    """Tells whoever watches what happens to turns (spec/agent-system.md E15)."""

    def emit(self, kind: str, principal: str, /, **facts: Any) -> None:
        """Never waits and never fails: a watcher who is too slow is dropped."""
        ...


class Snapshots(Protocol):
    """A host that can put the whole machine back to an earlier point takes a snapshot per user message."""

    async def take(self, session_id: str, message_id: str) -> str | None:
        """Called before the message is stored; the snapshot's id is kept with it, and named when it is rewound."""
        ...
