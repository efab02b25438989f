"""The way to the model and to what else the mesh offers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_common.protocol import ModelCard, SearchHit, Usage


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
    session_id: str = ""
    """Requests of one session begin alike: a provider's cache is told so."""
    message_id: str = ""
    """The message id of the turn that asks, for the log."""
    temperature: float | None = None
    attempts: int | None = None
    """Times the call is made before a passing failure counts; none: the client's own number."""


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
    usage_reported: bool = True
    """The usage is what the provider says; else it is a guess of ours."""


ModelEvent = Retrying | TextPiece | ReasoningPiece | CallStarted | CallPiece | Completion


class Model(Protocol):
    """A language model behind the mesh."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The call's events; the last one is the Completion. Raises ModelError."""
        ...


class ModelCards(Protocol):
    """What the host says about its models."""

    reachable: bool | None
    """Whether the host answered the last time it was asked; none before that."""

    async def card(self, name: str) -> ModelCard | None:
        """The card of one model, at most a minute old where the host can be reached; none when nothing is known."""
        ...


class ModelMeter(Protocol):
    """Counts the model calls of a tool against the budget of the turn that called it."""

    async def check_budget(self, model: str) -> None:
        """Raises ToolFailure when the budget is used up, or when it limits the cost and the model has no price."""
        ...

    def spend(self, usage: Usage) -> None: ...


class Mesh(Protocol):
    """What the host offers besides streaming completions. Raises MeshUnavailable."""

    async def models(self) -> Sequence[ModelCard]: ...

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], meter: ModelMeter | None = None, /, **options: Any
    ) -> dict[str, Any]: ...

    async def embed(
        self, texts: Sequence[str], meter: ModelMeter | None = None, /, *, model: str | None = None
    ) -> list[list[float]]: ...


class Search(Protocol):
    """Finds pages on the web."""

    async def search(self, query: str, limit: int, session_id: str) -> Sequence[SearchHit]:
        """At most `most` pages, best first. Raises MeshUnavailable and ToolFailure."""
        ...
