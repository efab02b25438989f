"""Interfaces for models and the other services of the mesh."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_common.completions import AnswerPiece, StopReason, ToolCall
from agent_common.protocol import ModelCard, Pricing, SearchHit, Usage


@dataclass(frozen=True, slots=True)
class ProviderFields:
    """What a provider gave with one message, beyond what every model is sent, and wants to see again."""

    model: str
    """The model that made it: only this one is sent it."""
    members: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Members of the message."""
    reasoning: tuple[str, str] | None = None
    """The member under which reasoning came, and its text."""
    calls: Sequence[Mapping[str, Any]] = ()
    """Members of each of its calls."""
    ids: Mapping[str, str] = field(default_factory=dict[str, str])
    """Ids of calls that are recorded under another one -> as they came."""
    rendered: dict[tuple[bytes, bool, bool], bytes] = field(
        default_factory=dict[tuple[bytes, bool, bool], bytes], compare=False
    )
    """Messages as they were sent: with or without the reasoning, and the other fields."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call. Messages and tools are serialized already, so that a long history is not processed again."""

    model: str
    messages: Sequence[bytes]
    """Chat-completions messages as JSON."""
    tools: bytes | None = None
    """The JSON array of tool definitions; None: no tools."""
    tool_choice: Literal["auto", "none"] = "auto"
    max_tokens: int | None = None
    session_id: str = ""
    """Passed to the provider's cache, because requests of one session share a prefix, and to the host's ledger."""
    caller_session_id: str = ""
    """Of a subagent's request the session that called it, for the ledger."""
    subagent: str = ""
    """The subagent's name, for the ledger; empty: the agent itself."""
    user: str = ""
    """The session's user, for the ledger."""
    message_id: str = ""
    """Id of the turn's message, for the log."""
    temperature: float | None = None
    attempts: int | None = None
    """Attempts before a transient failure counts; None: the client's default."""
    fields: Mapping[int, ProviderFields] = field(default_factory=dict[int, ProviderFields])
    """What providers gave with messages, by their index."""
    turn_start: int = 0
    """Index of the message that began the current turn."""
    tool_names: frozenset[str] = frozenset()
    """Names of the tools, by which a call is known in an answer that does not mark it well; empty: unknown."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """Event: the call failed before its first token and will be repeated."""

    attempt: int
    message: str
    delay: float
    usage: Usage = field(default_factory=Usage)
    """What the attempt has used, if its provider has reported that."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """The model that answered in place of the one that was asked for."""

    model: str
    """Its name in the host's catalog."""
    reason: str
    """Why the other could not answer."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The end of a model call."""

    stop_reason: StopReason
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    usage_reported: bool = True
    """Whether the provider reported the usage; otherwise it is estimated."""
    empty: bool = False
    """Whether it has no visible text and no call."""
    maker: str = ""
    """The model and its provider, by a name that stays the same."""
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Members of the message that we do not know."""
    reasoning_member: str = ""
    """The member under which its reasoning came; empty if it came in the text."""
    fallback: Fallback | None = None
    """The model that answered in place of the one that was asked for; None: that one did."""


ModelEvent = Retrying | AnswerPiece | Completion


class Model(Protocol):
    """A language model, called through the mesh."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the events of the call; the last one is the Completion. Raises ModelError."""
        ...


class ModelCards(Protocol):
    """The host's information about its models."""

    reachable: bool | None
    """Whether the host answered the last request; None before the first one."""

    async def card(self, name: str, age: float = 60.0) -> ModelCard | None:
        """Return the card of a model, at most `age` seconds old if the host is reachable. None if nothing is known."""
        ...

    def price(self, name: str) -> Pricing | None:
        """Return the price at which this runtime counts a model's calls; None if it is unknown, or if the host says
        with each answer what it has cost."""
        ...


class ModelMeter(Protocol):
    """Charges a tool's model calls to the budget of the calling turn."""

    async def check_budget(self, model: str) -> None:
        """Raise ToolFailure if the budget is used up, or if it limits the cost and the model has no price."""
        ...

    def spend(self, usage: Usage) -> None: ...


class Mesh(Protocol):
    """The host's services besides streaming completions. All methods raise MeshUnavailable."""

    async def models(self) -> Sequence[ModelCard]: ...

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], meter: ModelMeter | None = None, /, **options: Any
    ) -> dict[str, Any]: ...

    async def embed(
        self, texts: Sequence[str], meter: ModelMeter | None = None, /, *, model: str | None = None
    ) -> list[list[float]]: ...

    async def request(self, path: str, body: Any, meter: ModelMeter | None = None, /) -> dict[str, Any]: ...


class Search(Protocol):
    """Web search."""

    async def search(self, query: str, limit: int, session_id: str) -> Sequence[SearchHit]:
        """Return at most `limit` pages, best first. Raises MeshUnavailable and ToolFailure."""
        ...
